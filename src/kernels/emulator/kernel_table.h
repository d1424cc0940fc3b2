// Finds the kernels of the device sources, as they are compiled for the host.
#pragma once

#include "kernels/emulator/block.h"
#include "kernels/gpu/kernel_list.h"

namespace fathom::emulator {

const Kernel& FindKernel(GpuKernel kernel);

}  // namespace fathom::emulator
