// The kernels of gpu_probe as they are compiled for the emulator, for the driver library of the
// tests.
#pragma once

#include <span>
#include <string_view>

#include "tests/emulator/block.h"

namespace fathom::probe {

struct EmulatedKernel {
  std::string_view name;
  emulator::Kernel kernel;
};

std::span<const EmulatedKernel> EmulatedKernels();

}  // namespace fathom::probe
