// Arguments of the kernels that use memory of the host (host.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

struct HostReadArguments {
  const void* from = nullptr;
  int64_t bytes = 0;
  uint32_t* sums = nullptr;  // of every thread of the grid: its words, added modulo 2^32
};
inline constexpr int kHostThreads = 256;

// Answers n_rounds numbers of the host, 1, 2, ..., each by the same number.
struct FlagArguments {
  const uint32_t* asked = nullptr;
  uint32_t* answered = nullptr;
  uint32_t n_rounds = 0;
  uint64_t limit = 0;  // nanoseconds of a wait, after which the kernel ends with kNoAnswer
};
inline constexpr uint32_t kNoAnswer = ~uint32_t{0};

struct DelayArguments {
  uint64_t nanoseconds = 0;
};

}  // namespace fathom::probe
