#include "distributed/row_gather.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace fathom::distributed {

std::int64_t GatheredRows(const ModelConfig& config, const ModelShard& shard,
                          std::int64_t max_tokens) {
  if (shard.RowsOfRatio4().n == 1) return 0;
  return std::min(max_tokens * config.index_topk,
                  std::max(config.index_topk, shard.most_gathered_rows));
}

RowGather::RowGather(const ModelConfig& config, const ModelShard& shard, std::int64_t max_tokens,
                     std::int64_t max_context)
    : shard_(shard.RowsOfRatio4()), most_rows_(GatheredRows(config, shard, max_tokens)) {
  if (!is_needed()) return;
  const auto n_ranks = static_cast<std::size_t>(shard_.n);
  gathered_.resize(static_cast<std::size_t>(VisibleRows(max_context - 1, 4)));
  counts_.resize(n_ranks);
  firsts_.resize(n_ranks + 1);
  own_rows_.reserve(static_cast<std::size_t>(most_rows_));
}

std::int32_t RowGather::AssignSlot(std::int32_t sequence, std::int32_t row) {
  Gathered& gathered = gathered_[static_cast<std::size_t>(row)];
  if (gathered.turn != turn_) {
    gathered = {turn_, counts_[static_cast<std::size_t>(row % shard_.n)]++};
    if (shard_.Has(row)) {
      own_rows_.push_back({sequence, row});
    }
  }
  return gathered.slot;
}

// Until all rows are counted, replaces a row by its slot among the rows of its rank, times the
// number of ranks, plus the rank.
std::int64_t RowGather::Gather(const BatchView& batch, Matrix<std::int32_t> selected,
                               std::int64_t first) {
  std::ranges::fill(counts_, 0);
  own_rows_.clear();
  const auto segment_of = [&](std::int64_t row) {
    return batch.segment_of_row[static_cast<std::size_t>(row)];
  };
  std::int64_t token = first;
  for (; token < selected.rows; ++token) {
    const auto n_gathered = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
    if (token > first && n_gathered + selected.cols > most_rows_) break;
    if (token == first || segment_of(token) != segment_of(token - 1)) {
      ++turn_;
    }
    const std::int32_t sequence = batch.FindSegment(token).sequence;
    for (std::int32_t& row : selected.RowSpan(token)) {
      row = row < 0 ? row : AssignSlot(sequence, row) * shard_.n + row % shard_.n;
    }
  }
  firsts_[0] = 0;
  std::partial_sum(counts_.begin(), counts_.end(), firsts_.begin() + 1, std::plus<std::int64_t>());
  Check(n_rows() <= most_rows_, "gathered rows");
  for (std::int32_t& row : std::span(selected.Row(first), selected.Row(token))) {
    row = row < 0 ? row : static_cast<std::int32_t>(FirstRow(row % shard_.n)) + row / shard_.n;
  }
  return token - first;
}

}  // namespace fathom::distributed
