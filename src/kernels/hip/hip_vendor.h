// AMD's HIP runtime: libamdhip64.so of ROCm 6 and 7.
#pragma once

#include "kernels/vendor/gpu_vendor.h"

namespace fathom {

GpuVendor HipVendor();

}  // namespace fathom
