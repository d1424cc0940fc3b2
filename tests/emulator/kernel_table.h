// Finds the kernels of the device sources as compiled for the host.
#pragma once

#include "kernels/gpu/kernel_list.h"
#include "tests/emulator/block.h"

namespace fathom::kernels::emulator {

const Kernel& FindKernel(GpuKernel kernel);

}  // namespace fathom::kernels::emulator
