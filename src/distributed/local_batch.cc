#include "distributed/local_batch.h"

#include <algorithm>

namespace fathom {

void CountTokens(const BatchView& whole, const DataRanks& data, std::span<std::int64_t> tokens) {
  std::ranges::fill(tokens, 0);
  for (const Segment& segment : whole.segments) {
    tokens[static_cast<std::size_t>(data.Owner(segment.sequence))] += segment.n_tokens;
  }
}

LocalBatch::LocalBatch(std::int64_t max_tokens, std::int64_t max_segments) {
  local_.Reserve(max_tokens, max_segments);
  local_rows_.reserve(static_cast<std::size_t>(max_tokens));
  owners_.reserve(static_cast<std::size_t>(max_tokens));
}

void LocalBatch::Assign(const BatchView& whole, const ModelShard& shard) {
  local_.Clear();
  local_rows_.clear();
  owners_.clear();
  const DataRanks data = shard.data();
  for (const Segment& segment : whole.segments) {
    const bool is_local = data.IsOwn(segment.sequence);
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      local_rows_.push_back(is_local ? local_.n_tokens() + i : -1);
      owners_.push_back(data.Owner(segment.sequence));
    }
    if (is_local) {
      local_.Add(data.OwnSlot(segment.sequence), segment.first_position,
                 whole.tokens.subspan(static_cast<std::size_t>(segment.first_row),
                                      static_cast<std::size_t>(segment.n_tokens)));
    }
  }
}

}  // namespace fathom
