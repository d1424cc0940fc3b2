// Arguments of the kernels that read weights once (streaming.cu, hopper_streaming.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

struct StreamArguments {
  const Vector16* from = nullptr;
  int64_t n = 0;             // vectors: whole chunks
  uint32_t* sums = nullptr;  // of every thread of the grid: its words, added modulo 2^32
  BlockTimes* times = nullptr;
};
inline constexpr int kStreamThreads = 256;

// StreamBulk: consumers, and a warp of which one thread copies.
inline constexpr int kBulkConsumers = 128;
inline constexpr int kBulkThreads = kBulkConsumers + 32;
inline constexpr int kBulkStages = 12;
inline constexpr int kBulkChunk = 8 << 10;
inline constexpr int64_t kBulkShared = 1024 + kBulkStages * kBulkChunk;

}  // namespace fathom::probe
