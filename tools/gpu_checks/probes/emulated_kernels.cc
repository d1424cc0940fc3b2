#include "tools/gpu_checks/probes/emulated_kernels.h"

#include "tests/kernels/hopper_cases.h"

// clang-format off
#define PROBE_KERNELS(X) \
  X(MmaRateF16N8) X(MmaRateF16N8Widening) X(MmaRateF16N64) X(MmaRateF16N64Widening) \
  X(MmaRateBf16N8) X(MmaRateBf16N8Widening) X(MmaRateBf16N64) X(MmaRateBf16N64Widening) \
  X(WgmmaRateSharedN8) X(WgmmaRateSharedN8Widening) \
  X(WgmmaRateSharedN64) X(WgmmaRateSharedN64Widening) \
  X(WgmmaRateSharedN128) X(WgmmaRateSharedN128Widening) \
  X(WgmmaRateSharedN256) X(WgmmaRateSharedN256Widening) \
  X(WgmmaRateRegistersN8) X(WgmmaRateRegistersN8Widening) \
  X(WgmmaRateRegistersN64) X(WgmmaRateRegistersN64Widening) \
  X(WgmmaRateRegistersN128) X(WgmmaRateRegistersN128Widening) \
  X(WgmmaRateRegistersN256) X(WgmmaRateRegistersN256Widening) \
  X(EmptyKernel) X(StampKernel) X(TimerStep) X(EmptyEarlyKernel) X(StampEarlyKernel) \
  X(StreamRegisters) X(StreamBulk) X(ClusterBarrier8) X(ClusterBarrier16) X(ClusterRead8) \
  X(ClusterRead16) X(PrefetchWeights) X(ReadHostBy4) X(ReadHostBy8) X(ReadHostBy16) \
  X(AnswerFlags) X(Delay)
// clang-format on
#define DECLARE_PROBE_KERNEL(Name) \
  extern "C" fathom::kernels::emulator::Kernel fathom_emulated_##Name();
PROBE_KERNELS(DECLARE_PROBE_KERNEL)
#undef DECLARE_PROBE_KERNEL

namespace fathom::probe {

std::span<const EmulatedKernel> EmulatedKernels() {
#define NAMED_KERNEL(Name) {#Name, fathom_emulated_##Name()},
  static const EmulatedKernel kKernels[] = {PROBE_KERNELS(NAMED_KERNEL)
                                                HOPPER_TEST_KERNELS(NAMED_KERNEL)};
#undef NAMED_KERNEL
  return kKernels;
}

}  // namespace fathom::probe
