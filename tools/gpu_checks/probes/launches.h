// Arguments of the kernels of chains of launches (launches.cu, hopper_launches.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

struct EmptyArguments {
  int64_t unused = 0;
};

// Begins when the launches before it have ended, whenever its blocks were started.
struct StampArguments {
  BlockTimes* times = nullptr;  // [blocks] of this launch
};

struct TimerStepArguments {
  int64_t n_reads = 0;
  uint64_t* least = nullptr;  // nanoseconds between two different times
};

}  // namespace fathom::probe
