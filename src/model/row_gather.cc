#include "model/row_gather.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace fathom {

std::int64_t GatheredRows(const ModelConfig& config, const ModelShard& share,
                          std::int64_t max_tokens) {
  if (share.RowsOfRatio4().n == 1) {
    return 0;
  }
  return std::min(max_tokens * config.index_topk,
                  std::max(config.index_topk, share.most_gathered_rows));
}

RowGather::RowGather(const ModelConfig& config, const ModelShard& share, std::int64_t max_tokens,
                     std::int64_t max_context)
    : share_(share.RowsOfRatio4()), most_rows_(GatheredRows(config, share, max_tokens)) {
  if (!is_needed()) {
    return;
  }
  const auto n_ranks = static_cast<std::size_t>(share_.n);
  taken_.resize(static_cast<std::size_t>(VisibleRows(max_context - 1, 4)));
  counts_.resize(n_ranks);
  firsts_.resize(n_ranks + 1);
  own_rows_.reserve(static_cast<std::size_t>(most_rows_));
}

std::int32_t RowGather::PlaceOf(std::int32_t sequence, std::int32_t row) {
  Taken& taken = taken_[static_cast<std::size_t>(row)];
  if (taken.turn != turn_) {
    taken = {turn_, counts_[static_cast<std::size_t>(row % share_.n)]++};
    if (share_.Has(row)) {
      own_rows_.push_back({sequence, row});
    }
  }
  return taken.place;
}

// Until all are counted, a row is its place among those of its rank, times the ranks, plus the
// rank.
std::int64_t RowGather::Take(const BatchView& batch, Matrix<std::int32_t> selected,
                             std::int64_t first) {
  std::ranges::fill(counts_, 0);
  own_rows_.clear();
  const auto segment_of = [&](std::int64_t row) {
    return batch.segment_of_row[static_cast<std::size_t>(row)];
  };
  std::int64_t token = first;
  for (; token < selected.rows; ++token) {
    const auto n_taken = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
    if (token > first && n_taken + selected.cols > most_rows_) {
      break;
    }
    if (token == first || segment_of(token) != segment_of(token - 1)) {
      ++turn_;
    }
    const std::int32_t sequence = batch.SegmentOf(token).sequence;
    for (std::int32_t& row : selected.RowSpan(token)) {
      row = row < 0 ? row : PlaceOf(sequence, row) * share_.n + row % share_.n;
    }
  }
  firsts_[0] = 0;
  std::partial_sum(counts_.begin(), counts_.end(), firsts_.begin() + 1, std::plus<std::int64_t>());
  Check(n_rows() <= most_rows_, "gathered rows");
  for (std::int32_t& row : std::span(selected.Row(first), selected.Row(token))) {
    row = row < 0 ? row : static_cast<std::int32_t>(FirstOf(row % share_.n)) + row / share_.n;
  }
  return token - first;
}

}  // namespace fathom
