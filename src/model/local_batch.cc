#include "model/local_batch.h"

#include <algorithm>

namespace fathom {

LocalBatch::LocalBatch(std::int64_t max_tokens, std::int64_t max_segments, int n_data)
    : tokens_of_rank_(static_cast<std::size_t>(n_data)) {
  own_.Reserve(max_tokens, max_segments);
  places_.reserve(static_cast<std::size_t>(max_tokens));
}

void LocalBatch::Clear() {
  own_.Clear();
  places_.clear();
  std::ranges::fill(tokens_of_rank_, 0);
}

void LocalBatch::Take(const BatchView& whole, const ModelShard& share) {
  Clear();
  const DataRanks data = share.data();
  for (const Segment& segment : whole.segments) {
    const int rank = data.OwnerOf(segment.sequence);
    std::int64_t& n_tokens = tokens_of_rank_[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      places_.push_back({rank, n_tokens++});
    }
    if (rank == share.data_rank) {
      own_.Add(data.OwnSlotOf(segment.sequence), segment.first_position,
               whole.tokens.subspan(static_cast<std::size_t>(segment.first_row),
                                    static_cast<std::size_t>(segment.n_tokens)));
    }
  }
}

}  // namespace fathom
