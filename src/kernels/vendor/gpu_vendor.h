// GpuVendor: how NVIDIA's and AMD's drivers differ, apart from the names of their functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/vendor/driver_api.h"

namespace fathom {

// A version as a driver counts it: major * per_major + minor * per_minor.
struct DriverVersionUnits {
  int per_major = 1;
  int per_minor = 1;
};

struct GpuVendor {
  GpuVendorName name = GpuVendorName::kCuda;
  std::string_view title;              // "CUDA", as users know it
  std::vector<std::string> libraries;  // files of the driver, the first that is there is opened
  std::string_view least_driver;       // for errors: "CUDA 13.0 (driver 580) or later"
  int least_major = 0;
  DriverVersionUnits version_units;
  // Numbers of attributes of a device.
  int n_multiprocessors = 0;
  int wave_size = 0;
  int shared_bytes = 0;
  int is_integrated = 0;
  // Flags of allocate_host, mapped for all devices: memory that both sides write, and memory that
  // the device only reads.
  unsigned host_flags = 0;
  unsigned read_only_host_flags = 0;
  unsigned register_flags = 0;  // of register_host, for memory that the device only reads
  // The most threads of a grid in x, blocks times threads of a block.
  std::int64_t most_grid_threads = std::numeric_limits<std::int64_t>::max();
  // The driver's graphs are known to compute what its launches do.
  bool has_right_graphs = false;
  // Returns the one of `architectures` that the device runs. Error: kUnsupported, with what was
  // expected and found.
  Result<std::string> (*choose_architecture)(
      const DriverApi& api, int device, std::span<const std::string_view> architectures) = nullptr;
};

}  // namespace fathom
