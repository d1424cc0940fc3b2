// DataRanks: assigns sequences, and their caches, to ranks.
#pragma once

#include <cstdint>

#include "base/integer_math.h"

namespace fathom::kv_cache {

// Sequences are numbered among all ranks, and within a rank without gaps:
//
//   sequence  0 1 2 3 4 5 6
//   rank      0 1 2 0 1 2 0      of 3
//   own slot  0 0 0 1 1 1 2
struct DataRanks {
  int rank = 0;  // this rank
  int n = 1;

  int Owner(std::int32_t sequence) const { return sequence % n; }
  bool IsOwn(std::int32_t sequence) const { return Owner(sequence) == rank; }
  std::int32_t OwnSlot(std::int32_t sequence) const { return sequence / n; }
  // Returns the sequence in an own slot of this rank.
  std::int32_t SequenceIn(std::int32_t own_slot) const { return own_slot * n + rank; }
  // Returns the largest number of own slots that a rank has, with n_sequences in all.
  std::int64_t OwnSlots(std::int64_t n_sequences) const { return DivideUp(n_sequences, n); }
};

}  // namespace fathom::kv_cache
