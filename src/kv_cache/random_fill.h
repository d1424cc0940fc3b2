// A cache as if a long text had been read, without reading it: for measurements at a depth.
#pragma once

#include <cstdint>

#include "kernels/layer_cache.h"
#include "kv_cache/sequence_cache.h"

namespace fathom {

// Writes what a query at position n_tokens (0 ... the capacity) may read of `sequence` in this
// layer: its window, the compressed and index rows of n_tokens, its tails. The cache has been
// extended to n_tokens. The numbers are random and of ordinary size (1/2 to 2 and their negatives;
// what rows may hold, never NaN), the same for the same seed. Writes from the calling thread, so
// the memory must be the host's.
void FillRandomly(LayerCache& layer, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed);

// The same in all layers here, if the sequence is one of this data rank; every layer has the same
// numbers however they are cut.
void FillRandomly(SequenceCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed);

}  // namespace fathom
