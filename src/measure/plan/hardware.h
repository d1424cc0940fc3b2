// The machines that a plan is for, as a JSON file describes them (docs/plan.md):
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

namespace fathom::plan {

// What numbers are multiplied as. Devices have a rate for each; what they cannot multiply runs at
// the rate of the next wider format.
enum class NumberFormat { kFp4, kFp8, kBf16 };

struct Device {
  double memory_bytes = 0;
  double reserved_bytes = 0;    // of them, what something else takes
  double bytes_per_second = 0;  // read from memory
  double fp4_flops = 0;         // per second
  double fp8_flops = 0;
  double bf16_flops = 0;

  double Flops(NumberFormat format) const;
};

// Between two devices. What a device sends and receives at once, each way.
struct Link {
  double bytes_per_second = 0;
  double latency = 0;      // seconds from the start of a message to its end, without its bytes
  double per_message = 0;  // seconds that a device needs for each message it sends
};

struct Hardware {
  std::string name;
  std::int64_t n_nodes = 1;
  std::int64_t devices_per_node = 1;
  Device device;
  // Shares of the device's rates that a model sees.
  double memory_efficiency = 1;
  double compute_efficiency = 1;
  Link node;                 // within a node; unused if a node has one device
  Link network;              // between nodes; unused if there is one
  double step_seconds = 0;   // of each step of a stage, besides what it reads and computes
  double layer_seconds = 0;  // the same of each layer

  std::int64_t n_devices() const { return n_nodes * devices_per_node; }
};

// Errors (kInvalidData) name the file and the field: what is missing, unknown or out of range.
Result<Hardware> ParseHardware(std::string_view text, std::string_view file_name);

}  // namespace fathom::plan
