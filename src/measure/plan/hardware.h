// The machines of a plan, described by a JSON file (docs/plan.md):
//
//   {"name": "8 x H200", "source": "data sheet of ...",
//    "nodes": 1, "devices_per_node": 8,
//    "device": {"memory_bytes": 141e9, "reserved_bytes": 4e9, "memory_gb_s": 4800,
//               "gflop_s": {"fp4": 1979000, "fp8": 1979000, "bf16": 989000}},
//    "efficiency": {"memory": 0.8, "compute": 0.6},
//    "links": {"node": {"gb_s": 450, "latency_us": 5}, "network": {"gb_s": 50, "latency_us": 15}},
//    "step_us": 200}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom::measure::plan {

inline constexpr double kGiga = 1e9;

inline double Number(std::int64_t x) { return static_cast<double>(x); }

struct Device {
  double memory_bytes = 0;
  double reserved_bytes = 0;    // bytes that other programs use
  double bytes_per_second = 0;  // rate of reading memory
  // The rates of products, per second; a format that the device cannot multiply runs at the rate of
  // the next wider format.
  double fp4_flops = 0;
  double fp8_flops = 0;
  double bf16_flops = 0;
};
// The rate for one format.
using FormatFlops = double Device::*;

// A link between two devices: it sends and receives at this rate simultaneously.
struct Link {
  double bytes_per_second = 0;
  double latency = 0;      // seconds of a message without its bytes
  double per_message = 0;  // seconds of the device's work to send a message
};

struct Hardware {
  std::string name;
  std::int64_t n_nodes = 1;
  std::int64_t devices_per_node = 1;
  Device device;
  // The shares of the device's rates that a model reaches.
  double memory_efficiency = 1;
  double compute_efficiency = 1;
  Link node;                 // within a node; unused if nodes have one device
  Link network;              // between nodes; unused if there is one node
  double step_seconds = 0;   // per step of a stage, besides reading and computing
  double layer_seconds = 0;  // per layer, besides reading and computing

  std::int64_t n_devices() const { return n_nodes * devices_per_node; }
};

// Errors (kInvalidData) name the file and the field that is missing, unknown or out of range.
Result<Hardware> ParseHardware(std::string_view text, std::string_view file_name);

}  // namespace fathom::measure::plan
