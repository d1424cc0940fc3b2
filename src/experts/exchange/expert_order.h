// ExpertOrder: in how many chunks a rank computes its experts, and which of them come first.
//
// The outputs of a chunk travel while the next one is computed, those of the last one when nothing
// is computed any more. Which rows a message holds follows from the order, so it is the same on all
// ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace fathom {

inline constexpr int kMaxExpertChunks = 16;

// For calls of so many tokens on all ranks together. Each chunk costs a call, and what is left when
// all is computed falls with the number n of chunks: a n + b pairs / n is least where n grows as
// the root of the pairs.
int ExpertChunks(std::int64_t n_tokens, std::int64_t experts_per_token, int n_ranks);

// Owns its tables, allocated at the start. One thread.
class ExpertOrder {
 public:
  explicit ExpertOrder(std::int64_t n_experts);

  // Chunks are of n, n - 1, ... 1 parts of a rank's experts: the last one, beside whose outputs
  // nothing is computed any more, is the smallest.

  // Where ranks do not know each other's tokens.
  void ById(int n_chunks);
  // Where they do: every rank's experts in the order in which `tokens` [t] name them, so that the
  // first of these are complete early. ids, homes [t, k]; kRemoteExpert: none.
  void ByFirstUse(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes,
                  std::span<const std::int64_t> tokens, int n_ranks, int n_chunks);

  int n_chunks() const { return n_chunks_; }
  int ChunkOf(std::int32_t expert) const { return chunks_[static_cast<std::size_t>(expert)]; }

 private:
  // The work of a rank.
  struct Share {
    std::int64_t total = 0;
    std::int64_t assigned = 0;
  };
  int n_chunks_ = 1;
  std::vector<int> chunks_;          // by expert
  std::vector<std::int64_t> loads_;  // tokens by expert
  std::vector<int> homes_;           // home of the first token that chose the expert
  std::vector<std::int32_t> named_;  // experts, in the order of their first use
  std::vector<Share> shares_;        // by rank
};

}  // namespace fathom
