// Opens a vendor's driver library and lists its devices: the GpuModule of the two modules.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gpu_module.h"
#include "kernels/vendor/code_objects.h"
#include "kernels/vendor/gpu_vendor.h"

namespace fathom::kernels {

// The code objects must outlive the module. Errors: no driver library, a driver that is too old,
// no device.
Result<std::unique_ptr<GpuModule>> MakeVendorModule(const GpuVendor& vendor,
                                                    const CodeObjects& code);

}  // namespace fathom::kernels
