// ExpertLoads: counts the tokens that each routed expert of this rank has computed in the last
// steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/pages.h"
#include "base/result.h"

namespace fathom::experts {

// Counts per block and logical expert. A rank counts the tokens that it computes itself, so the sum
// over the ranks covers the choices of all tokens. Counts belong to experts, not to replicas, and
// stay valid when replicas move. One thread at a time. Allocates at construction only: 4 bytes per
// step, block and expert, which take memory when first counted.
class ExpertLoads {
 public:
  // Keeps the counts of the last n_steps (at least 1).
  static Result<ExpertLoads> Create(std::int64_t n_blocks, std::int64_t n_experts,
                                    std::int64_t n_steps);

  // Begins the next step's counts and drops the counts of the oldest step.
  void BeginStep();
  void Count(std::int64_t block, std::int32_t expert) {
    const auto i = static_cast<std::size_t>(block * n_experts_ + expert);
    ++step_[i];
    ++sums_[i];
  }
  // Returns the sums [experts] over the kept steps.
  std::span<const std::int64_t> Of(std::int64_t block) const {
    return std::span(sums_).subspan(static_cast<std::size_t>(block * n_experts_),
                                    static_cast<std::size_t>(n_experts_));
  }

 private:
  ExpertLoads() = default;

  std::int64_t n_experts_ = 0;
  std::int64_t n_steps_ = 0;
  std::int64_t n_begun_ = 0;
  PageMemory memory_;               // [n_steps, blocks, experts], a ring
  std::span<std::uint32_t> step_;   // [blocks, experts], in the ring
  std::vector<std::int64_t> sums_;  // [blocks, experts], over all steps
};

}  // namespace fathom::experts
