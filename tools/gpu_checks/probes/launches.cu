// Kernels without work.
#include "tools/gpu_checks/probes/launches.h"

namespace fathom::probe {

GPU_KERNEL(EmptyKernel, EmptyArguments a) { (void)a; }

GPU_KERNEL(StampKernel, StampArguments a) { EndOfBlock(a.times, Nanoseconds()); }

GPU_KERNEL(TimerStep, TimerStepArguments a) {
  uint64_t least = ~uint64_t{0};
  uint64_t last = Nanoseconds();
  for (int64_t i = 0; i < a.n_reads; ++i) {
    const uint64_t now = Nanoseconds();
    if (now != last && now - last < least) {
      least = now - last;
    }
    last = now;
  }
  if (ThreadX() == 0) {
    *a.least = least;
  }
}

}  // namespace fathom::probe
