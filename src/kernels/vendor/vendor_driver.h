// VendorDriver: GpuDriver through a vendor's driver library.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/vendor/code_objects.h"
#include "kernels/vendor/driver_api.h"
#include "kernels/vendor/gpu_vendor.h"

namespace fathom {

// Opens the device of this number, with the kernels for device.architecture. `title` names the
// device in errors: "CUDA device 0 (NVIDIA H200)". Errors: kOutOfMemory, kInvalidData if the code
// objects lack a kernel, kUnavailable for every other error of the driver.
Result<std::unique_ptr<GpuDriver>> OpenVendorDriver(const GpuVendor& vendor, const DriverApi& api,
                                                    const CodeObjects& code, int number,
                                                    const GpuDevice& device, std::string title);

}  // namespace fathom
