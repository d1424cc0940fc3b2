// GpuVendor: how NVIDIA's and AMD's drivers differ, apart from the names of their functions.
#pragma once

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
  unsigned host_flags = 0;  // of allocate_host: mapped for all devices
  // Returns the one of `architectures` that the device runs. Error: kUnsupported, with what was
  // expected and found.
  Result<std::string> (*choose_architecture)(
      const DriverApi& api, int device, std::span<const std::string_view> architectures) = nullptr;
};

}  // namespace fathom
