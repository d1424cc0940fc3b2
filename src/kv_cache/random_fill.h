// Fills a cache as if a long text had been read, without reading one: for measurements at a depth.
#pragma once

#include <cstdint>

#include "kv_cache/sequence_cache.h"

namespace fathom::kv_cache {

// Writes everything that a query at position n_tokens (0 ... the capacity) may read of `sequence`
// (a slot of this data rank) in a layer: its window, the compressed and index rows of n_tokens, its
// tails. The cache must have been extended to n_tokens. The numbers are random and of ordinary size
// (1/2 to 2 and their negatives; values that rows may hold, never NaN), and equal for equal seeds.
void FillLayerRandomly(SequenceCache& cache, std::int64_t layer, std::int32_t slot,
                       std::int64_t n_tokens, std::uint64_t seed);

// Fills all layers here, if the sequence is one of this data rank; every layer has the same numbers
// whichever layers are here.
void FillRandomly(SequenceCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed);

}  // namespace fathom::kv_cache
