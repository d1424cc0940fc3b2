// NVIDIA's driver: libcuda.so.1, which every installation of the driver has.
#pragma once

#include "kernels/vendor/gpu_vendor.h"

namespace fathom {

GpuVendor CudaVendor();

}  // namespace fathom
