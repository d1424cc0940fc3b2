// ExpertOrder: the chunks in which a rank computes its experts, and their order.
//
// The outputs of a chunk are sent while the next chunk is computed; nothing is computed while the
// outputs of the last chunk are sent. The order determines the rows of each message, so it is the
// same on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace fathom::experts {

inline constexpr int kMaxExpertChunks = 16;

// Returns the number of chunks for n_tokens on all ranks together. Each chunk costs a call (a n in
// all), and the outputs that remain to be sent when everything is computed decrease with the number
// n of chunks (b pairs / n): a n + b pairs / n is least where n grows as the square root of the
// pairs.
int ExpertChunks(std::int64_t n_tokens, std::int64_t experts_per_token, int n_ranks);

// Owns its tables, allocated at the start. One thread.
class ExpertOrder {
 public:
  explicit ExpertOrder(std::int64_t n_experts);

  // Chunks have n, n - 1, ... 1 parts of a rank's experts: the last chunk is the smallest, as
  // nothing is computed while its outputs are sent.

  // Orders the experts by their ids, for ranks that do not know each other's tokens.
  void ById(int n_chunks);
  // Orders the experts of every rank as `tokens` [t] name them, so that the first tokens are
  // complete early: for ranks that have the same tokens. ids, homes [t, k]; kRemoteExpert: none.
  void ByFirstUse(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes,
                  std::span<const std::int64_t> tokens, int n_ranks, int n_chunks);

  int n_chunks() const { return n_chunks_; }
  int Chunk(std::int32_t expert) const { return chunks_[static_cast<std::size_t>(expert)]; }

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

}  // namespace fathom::experts
