// Arguments of the kernel that prefetches (hopper_prefetch.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

// Brings `bytes`, a multiple of kPrefetchChunk, into the second-level cache.
struct PrefetchArguments {
  const Vector16* from = nullptr;
  int64_t bytes = 0;
};
inline constexpr int kPrefetchChunk = 4096;

}  // namespace fathom::probe
