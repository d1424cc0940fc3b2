#include "experts/balance/expert_loads.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fathom::experts {

Result<ExpertLoads> ExpertLoads::Create(std::int64_t n_blocks, std::int64_t n_experts,
                                        std::int64_t n_steps) {
  Check(n_steps >= 1, "a window of at least one step");
  ExpertLoads loads;
  const std::int64_t n_counts = n_blocks * n_experts;
  Result<PageMemory> memory =
      PageMemory::Allocate(n_steps * n_counts * static_cast<std::int64_t>(sizeof(std::uint32_t)));
  if (!memory) return Unexpected(memory.error());
  loads.n_experts_ = n_experts;
  loads.n_steps_ = n_steps;
  loads.memory_ = *std::move(memory);
  loads.sums_.resize(static_cast<std::size_t>(n_counts), 0);
  loads.step_ = {reinterpret_cast<std::uint32_t*>(loads.memory_.bytes().data()),
                 loads.sums_.size()};
  return loads;
}

void ExpertLoads::BeginStep() {
  const auto at = static_cast<std::size_t>(n_begun_ % n_steps_);
  step_ = {reinterpret_cast<std::uint32_t*>(memory_.bytes().data()) + at * sums_.size(),
           sums_.size()};
  if (n_begun_ >= n_steps_) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] -= step_[i];
    }
    std::fill(step_.begin(), step_.end(), 0u);
  }
  ++n_begun_;
}

}  // namespace fathom::experts
