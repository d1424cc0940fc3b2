// GpuVendor: the differences between NVIDIA's and AMD's drivers beyond the names of functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/vendor/driver_api.h"

namespace fathom::kernels {

// A version number as a driver encodes it: major * per_major + minor * per_minor.
struct DriverVersionUnits {
  int per_major = 1;
  int per_minor = 1;
};

struct GpuVendor {
  GpuVendorName name = GpuVendorName::kCuda;
  std::string_view title;              // "CUDA", the name that users know
  std::vector<std::string> libraries;  // files of the driver; the first existing one is opened
  std::string_view least_driver;       // for errors: "CUDA 13.0 (driver 580) or later"
  int least_major = 0;
  DriverVersionUnits version_units;
  // Numbers of attributes of a device.
  int n_multiprocessors = 0;
  int wave_size = 0;
  int shared_bytes = 0;
  int is_integrated = 0;
  // Flags of allocate_host, which map the memory for all devices: for memory that both sides write,
  // and for memory that the device only reads.
  unsigned host_flags = 0;
  unsigned read_only_host_flags = 0;
  unsigned register_flags = 0;  // flags of register_host, for memory that the device only reads
  // The most threads of a grid in x: blocks times threads per block.
  std::int64_t most_grid_threads = std::numeric_limits<std::int64_t>::max();
  // True if the driver's graphs are known to compute the same as its launches.
  bool has_right_graphs = false;
  // Returns the one of `architectures` that the device runs. Error: kUnsupported, with the expected
  // and the found architectures.
  Result<std::string> (*choose_architecture)(
      const DriverApi& api, int device, std::span<const std::string_view> architectures) = nullptr;
};

GpuVendor CudaVendor();
GpuVendor HipVendor();

}  // namespace fathom::kernels
