// IndexPartition: which tensor rank scores which compressed rows in a step (layers of ratio 4), and
// what they choose together.
//
// The rows that the tokens of a step have to choose from, those of one token behind those of the
// token before it, are one line, and every rank has an equal stretch of it. So many tokens are
// shared by tokens, and the rows of a single one by rows. The line depends on the positions alone,
// which all ranks know. Of each token in its stretch a rank makes a list of the best rows
// (Backend::BestRows); the lists of a token, from all ranks that have some of its rows, are merged.
// A score does not depend on who computes it, so the choice is that of one rank.
//
// Where the ranks divide the cached rows (ModelShard::RowsOfRatio4), the stretch of each is instead
// what it has of the rows of all tokens, in every step in which there is something to choose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "kernels/row_choice.h"
#include "model/model_ranks.h"

namespace fathom {

// Rows that a token at this position has to choose from: all it sees, or none where they all fit.
std::int64_t RowsToScore(const ModelConfig& config, std::int64_t position);

// Whether the tensor ranks share the scoring of n_rows rows of all tokens together. Otherwise each
// scores all of them.
bool SharesScoring(const ModelConfig& config, const ModelShard& share, std::int64_t n_rows);

// What one rank has of the line.
struct IndexRange {
  std::int64_t first_token = 0;  // row of the batch
  std::int64_t n_tokens = 0;     // to the last one with rows in the stretch
  std::int64_t first_list = 0;   // its lists among those of all ranks, n_tokens
};

// One thread at a time. The configuration outlives it.
class IndexPartition {
 public:
  IndexPartition(const ModelConfig& config, const ModelShard& share, std::int64_t max_tokens);

  // From now on everything is said of this step.
  void Take(std::span<const std::int32_t> positions);

  // False: every token has all the rows it sees, and nobody computes scores.
  bool has_rows() const { return line_.back() > 0; }
  bool is_shared() const { return is_shared_; }

  // The following where the step is shared.
  const IndexRange& StretchOf(int rank) const { return stretches_[static_cast<std::size_t>(rank)]; }
  // Of the own n_tokens; places of the rows that this rank has.
  std::span<const RowRange> own_ranges() const { return own_ranges_; }
  // lists: of all ranks, [StretchOf(last rank).first_list + n_tokens, index_topk]. rows [t,
  // index_topk]: what SelectRows gives.
  void Choose(Matrix<const ScoredRow> lists, Matrix<std::int32_t> rows) const;

 private:
  void CutByRows();
  void CutLine();
  std::int64_t End(int rank) const;

  const ModelConfig& config_;
  const ModelShard share_;
  bool is_shared_ = false;
  std::vector<std::int32_t> positions_;
  std::vector<std::int64_t> line_;  // where each token begins, and the end
  std::vector<IndexRange> stretches_;
  std::vector<RowRange> own_ranges_;
};

// Lists of all ranks for a step of n_tokens: one of each token from each rank that has some of its
// rows; else every border between two stretches cuts a token at most.
constexpr std::int64_t MostIndexLists(std::int64_t n_tokens, int n_tensor, bool divided_rows) {
  if (n_tensor == 1) {
    return 0;
  }
  return divided_rows ? n_tokens * n_tensor : n_tokens + n_tensor - 1;
}

}  // namespace fathom
