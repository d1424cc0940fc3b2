#include "model/local_rows.h"

#include <algorithm>

namespace fathom::model {

void CountTokens(const BatchView& whole, const DataRanks& data, std::span<std::int64_t> tokens) {
  std::ranges::fill(tokens, 0);
  for (const Segment& segment : whole.segments) {
    tokens[static_cast<std::size_t>(data.Owner(segment.sequence))] += segment.n_tokens;
  }
}

void LocalRows::Reserve(std::int64_t max_tokens, std::int64_t max_segments) {
  own_.Reserve(max_tokens, max_segments);
  rows_.reserve(static_cast<std::size_t>(max_tokens));
}

void LocalRows::Assign(const BatchView& whole, const DataRanks& data) {
  batch_ = whole;
  if (data.n == 1) return;
  own_.Clear();
  rows_.clear();
  for (const Segment& segment : whole.segments) {
    const bool is_local = data.IsOwn(segment.sequence);
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      rows_.push_back(is_local ? own_.n_tokens() + i : -1);
    }
    if (is_local) {
      own_.Add(data.OwnSlot(segment.sequence), segment.first_position,
               whole.tokens.subspan(static_cast<std::size_t>(segment.first_row),
                                    static_cast<std::size_t>(segment.n_tokens)));
    }
  }
  batch_ = own_.View();
}

}  // namespace fathom::model
