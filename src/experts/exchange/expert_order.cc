#include "experts/exchange/expert_order.h"

#include <algorithm>
#include <cmath>

#include "experts/exchange/expert_flow.h"

namespace fathom::experts {
namespace {

// Returns the chunk of an expert when `left` of a rank's work is not done yet. After chunk c of n,
// 1 + 2 + ... + r of n (n + 1) / 2 parts are left, r = n - 1 - c.
int ChunkAt(std::int64_t left, std::int64_t work, int n_chunks) {
  int chunk = n_chunks - 1;
  for (int r = 1; r < n_chunks && left * n_chunks * (n_chunks + 1) >= work * r * (r + 1); ++r) {
    --chunk;
  }
  return chunk;
}

}  // namespace

int ExpertChunks(std::int64_t n_tokens, std::int64_t experts_per_token, int n_ranks) {
  const auto pairs_of_rank = static_cast<double>(n_tokens * experts_per_token / n_ranks);
  return static_cast<int>(std::clamp(std::sqrt(pairs_of_rank), 1.0, 1.0 * kMaxExpertChunks));
}

ExpertOrder::ExpertOrder(std::int64_t n_experts)
    : chunks_(static_cast<std::size_t>(n_experts)), loads_(chunks_.size()), homes_(chunks_.size()) {
  named_.reserve(chunks_.size());
}

void ExpertOrder::ById(int n_chunks) {
  n_chunks_ = n_chunks;
  // Multiples of the golden ratio: any neighbours are spread evenly.
  for (std::size_t e = 0; e < chunks_.size(); ++e) {
    const auto place = static_cast<std::uint32_t>(e) * 0x9E3779B9u;
    chunks_[e] = ChunkAt(std::int64_t{1 << 16} - (place >> 16), 1 << 16, n_chunks);
  }
}

void ExpertOrder::ByFirstUse(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes,
                             std::span<const std::int64_t> tokens, int n_ranks, int n_chunks) {
  n_chunks_ = n_chunks;
  named_.clear();
  std::fill(loads_.begin(), loads_.end(), 0);
  shares_.assign(static_cast<std::size_t>(n_ranks), {});
  for (const std::int64_t token : tokens) {
    for (std::int64_t j = 0; j < ids.cols; ++j) {
      const std::int32_t id = ids.Row(token)[j];
      if (id != kRemoteExpert && loads_[static_cast<std::size_t>(id)]++ == 0) {
        named_.push_back(id);
        homes_[static_cast<std::size_t>(id)] = homes.Row(token)[j];
      }
    }
  }
  const auto share_of = [&](std::size_t expert) -> Share& {
    return shares_[static_cast<std::size_t>(homes_[expert])];
  };
  // A few tokens take only as long as reading the expert's weights.
  const auto work_of = [&](std::size_t expert) {
    return std::max(loads_[expert], kTokensWorthReading);
  };
  for (const std::int32_t id : named_) {
    const auto expert = static_cast<std::size_t>(id);
    share_of(expert).total += work_of(expert);
  }
  for (const std::int32_t id : named_) {
    const auto expert = static_cast<std::size_t>(id);
    Share& share = share_of(expert);
    // Counts half of this expert as done.
    const std::int64_t left_twice = 2 * (share.total - share.assigned) - work_of(expert);
    chunks_[expert] = ChunkAt(left_twice, 2 * share.total, n_chunks);
    share.assigned += work_of(expert);
  }
}

}  // namespace fathom::experts
