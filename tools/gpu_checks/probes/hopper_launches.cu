// Kernels without work, which let the next launch begin early and wait for the last one.
#include "tests/hopper/hopper.h"
#include "tools/gpu_checks/probes/launches.h"

namespace fathom::probe {

HOPPER_KERNEL(EmptyEarlyKernel, 256, 1, EmptyArguments a) {
  (void)a;
  StartDependentKernels();
  WaitForEarlierKernels();
}

HOPPER_KERNEL(StampEarlyKernel, 256, 1, StampArguments a) {
  StartDependentKernels();
  WaitForEarlierKernels();
  EndOfBlock(a.times, Nanoseconds());
}

}  // namespace fathom::probe
