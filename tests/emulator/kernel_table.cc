#include "tests/emulator/kernel_table.h"

#include <cstddef>
#include <iterator>

#define FATHOM_DECLARE(Name) extern "C" fathom::kernels::emulator::Kernel fathom_emulated_##Name();
FATHOM_GPU_KERNELS(FATHOM_DECLARE)
#undef FATHOM_DECLARE

namespace fathom::kernels::emulator {

const Kernel& FindKernel(GpuKernel kernel) {
  static const Kernel kKernels[] = {
#define FATHOM_CALL(Name) fathom_emulated_##Name(),
      FATHOM_GPU_KERNELS(FATHOM_CALL)
#undef FATHOM_CALL
  };
  return kKernels[static_cast<std::size_t>(kernel)];
}

}  // namespace fathom::kernels::emulator
