// IndexPartition: divides the scoring of compressed rows in a step among the tensor ranks (layers
// of ratio 4), and chooses from the lists of all ranks.
//
// The rows that the tokens of a step choose from, token after token, form one line, and each rank
// scores an equal range of that line: many tokens are divided by tokens, the rows of a single token
// by rows. The line depends only on the positions, which all ranks know. For each token in its
// range a rank lists the best rows (Backend::BestRows); the lists of a token from all ranks are
// merged. A score does not depend on the rank that computes it, so the choice equals the choice of
// a single rank.
//
// Where the ranks divide the cached rows (ModelShard::RowsOfRatio4), the range of each rank is the
// part of the rows that it caches, for all tokens, in every step in which there is a choice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "kernels/row_choice.h"

namespace fathom::distributed {

// Returns how many rows a token at this position chooses from: all visible rows, or 0 if all fit.
std::int64_t RowsToScore(const ModelConfig& config, std::int64_t position);

// True if the tensor ranks divide the scoring of n_rows rows over all tokens. Otherwise each rank
// scores all rows.
bool SharesScoring(const ModelConfig& config, const ModelShard& shard, std::int64_t n_rows);

// One rank's range of the line.
struct IndexRange {
  std::int64_t first_token = 0;  // row of the batch
  std::int64_t n_tokens = 0;     // tokens up to the last one with rows in the range
  std::int64_t first_list = 0;   // first of its n_tokens lists in the lists of all ranks
};

// One thread at a time. The configuration must outlive this object.
class IndexPartition {
 public:
  IndexPartition(const ModelConfig& config, const ModelShard& shard, std::int64_t max_tokens);

  // Sets the step that the getters describe.
  void Partition(std::span<const std::int32_t> positions);

  // False: every token attends to all visible rows, and no rank computes scores.
  bool has_rows() const { return line_.back() > 0; }
  bool is_shared() const { return is_shared_; }

  // --- Valid where is_shared() ---
  const IndexRange& RankRange(int rank) const { return ranges_[static_cast<std::size_t>(rank)]; }
  // For each of the own n_tokens, the places in the cache of the rows that this rank scores.
  std::span<const RowRange> own_rows() const { return own_rows_; }
  // lists: the lists of all ranks, [RankRange(last rank).first_list + n_tokens, index_topk]; rows
  // [t, index_topk]: the result of Backend::SelectRows.
  void Choose(Matrix<const ScoredRow> lists, Matrix<std::int32_t> rows) const;

 private:
  void DivideRows();
  void DivideLine();
  std::int64_t End(int rank) const;

  const ModelConfig& config_;
  const ModelShard shard_;
  bool is_shared_ = false;
  std::vector<std::int32_t> positions_;
  std::vector<std::int64_t> line_;  // beginning of each token; the end
  std::vector<IndexRange> ranges_;
  std::vector<RowRange> own_rows_;
};

// Returns the most lists of all ranks in a step of n_tokens: with divided rows, one for each token
// from each rank; else every border between two ranges splits one token at most.
constexpr std::int64_t MostIndexLists(std::int64_t n_tokens, int n_tensor, bool divided_rows) {
  if (n_tensor == 1) return 0;
  return divided_rows ? n_tokens * n_tensor : n_tokens + n_tensor - 1;
}

}  // namespace fathom::distributed
