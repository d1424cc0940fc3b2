#include "distributed/index_partition.h"

#include <algorithm>

#include "kernels/layer_cache.h"

namespace fathom::distributed {
namespace {

constexpr int kRatio = 4;  // ratio of the layers that have an indexer

}  // namespace

std::int64_t RowsToScore(const ModelConfig& config, std::int64_t position) {
  const std::int64_t visible = VisibleRows(position, kRatio);
  return visible > config.index_topk ? visible : 0;
}

// A list has 8 bytes for each of index_topk rows, out of more rows than that, each of which takes
// 128 multiply-adds per head: at least 16 per head and byte, 1024 for V4's 64 heads; links are
// slower by less than that. So the saving must only exceed the latency of a message.
bool SharesScoring(const ModelConfig& config, const ModelShard& shard, std::int64_t n_rows) {
  const std::int64_t spared = n_rows - n_rows / shard.n_tensor;
  return spared > 0 && spared * config.index_n_heads >= shard.least_index_work;
}

IndexPartition::IndexPartition(const ModelConfig& config, const ModelShard& shard,
                               std::int64_t max_tokens)
    : config_(config), shard_(shard), line_(1, 0) {
  const auto n = static_cast<std::size_t>(max_tokens);
  positions_.reserve(n);
  line_.reserve(n + 1);
  own_rows_.reserve(n);
  ranges_.resize(static_cast<std::size_t>(shard.n_tensor));
}

std::int64_t IndexPartition::End(int rank) const {
  return line_.back() * (rank + 1) / shard_.n_tensor;
}

void IndexPartition::Partition(std::span<const std::int32_t> positions) {
  positions_.assign(positions.begin(), positions.end());
  line_.assign(1, 0);
  for (const std::int32_t position : positions) {
    line_.push_back(line_.back() + RowsToScore(config_, position));
  }
  own_rows_.clear();
  const bool divides_rows = shard_.RowsOfRatio4().n > 1;
  is_shared_ = divides_rows ? has_rows() : SharesScoring(config_, shard_, line_.back());
  if (is_shared_) {
    divides_rows ? DivideRows() : DivideLine();
  }
}

void IndexPartition::DivideRows() {
  const auto has_rows = [&](std::size_t token) { return line_[token] < line_[token + 1]; };
  std::size_t first = 0, end = positions_.size();
  while (!has_rows(first)) ++first;
  while (!has_rows(end - 1)) --end;
  const auto n_tokens = static_cast<std::int64_t>(end - first);
  for (int rank = 0; rank < shard_.n_tensor; ++rank) {
    ranges_[static_cast<std::size_t>(rank)] = {.first_token = static_cast<std::int64_t>(first),
                                               .n_tokens = n_tokens,
                                               .first_list = rank * n_tokens};
  }
  for (std::size_t token = first; token < end; ++token) {
    own_rows_.push_back({0, shard_.RowsOfRatio4().CountBefore(line_[token + 1] - line_[token])});
  }
}

void IndexPartition::DivideLine() {
  std::int64_t n_lists = 0;
  for (int rank = 0; rank < shard_.n_tensor; ++rank) {
    const std::int64_t first = End(rank - 1), end = End(rank);
    IndexRange& range = ranges_[static_cast<std::size_t>(rank)];
    range = {.first_list = n_lists};
    if (first == end) continue;
    // The tokens that have the rows `first` and end - 1 of the line.
    const auto token_of = [&](std::int64_t row) {
      return std::upper_bound(line_.begin(), line_.end(), row) - line_.begin() - 1;
    };
    range.first_token = token_of(first);
    range.n_tokens = token_of(end - 1) + 1 - range.first_token;
    n_lists += range.n_tokens;
    for (std::int64_t i = 0; rank == shard_.tensor_rank && i < range.n_tokens; ++i) {
      const auto token = static_cast<std::size_t>(range.first_token + i);
      const std::int64_t begin = line_[token];
      own_rows_.push_back(
          {std::max(first, begin) - begin, std::min(end, line_[token + 1]) - begin});
    }
  }
}

void IndexPartition::Choose(Matrix<const ScoredRow> lists, Matrix<std::int32_t> rows) const {
  std::vector<const ScoredRow*> heads;  // the next row of each list of a token
  for (std::int64_t token = 0; token < rows.rows; ++token) {
    const auto i = static_cast<std::size_t>(token);
    if (line_[i] == line_[i + 1]) {
      ChooseAll(VisibleRows(positions_[i], kRatio), rows.RowSpan(token));
      continue;
    }
    heads.clear();
    for (const IndexRange& range : ranges_) {
      const std::int64_t in_range = token - range.first_token;
      if (in_range >= 0 && in_range < range.n_tokens) {
        heads.push_back(lists.Row(range.first_list + in_range));
      }
    }
    // No list is exhausted: together they have more rows than are chosen.
    for (std::int32_t& row : rows.RowSpan(token)) {
      const auto best = std::min_element(heads.begin(), heads.end(),
                                         [](const auto* a, const auto* b) { return *a < *b; });
      row = ToRow(*(*best)++);
    }
  }
}

}  // namespace fathom::distributed
