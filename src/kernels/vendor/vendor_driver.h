// VendorDriver: GpuDriver through a vendor's driver library.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/gpu_module.h"
#include "kernels/vendor/code_objects.h"
#include "kernels/vendor/driver_api.h"
#include "kernels/vendor/gpu_vendor.h"

namespace fathom::kernels {

struct DeviceToOpen {
  int number = 0;
  GpuDevice device;
  std::string title;  // for errors: "CUDA device 0 (NVIDIA H200)"
};

// Opens a device, with the kernels for its architecture. Errors: kOutOfMemory, kInvalidData if the
// code objects lack a kernel, kUnavailable for every other error of the driver.
Result<std::unique_ptr<GpuDriver>> OpenVendorDriver(const GpuVendor& vendor, const DriverApi& api,
                                                    const CodeObjects& code,
                                                    const DeviceToOpen& device,
                                                    const GpuDriverOptions& options);

}  // namespace fathom::kernels
