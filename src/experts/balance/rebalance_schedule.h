// RebalanceSchedule: decides when experts are rebalanced.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "experts/balance/expert_rebalancer.h"

namespace fathom {

// Uses the rebalancer, which must outlive it. All ranks call the same functions after the same
// steps.
class RebalanceSchedule {
 public:
  using OnEnd = std::function<void(const RebalanceReport&)>;

  // Rebalances every `interval` tokens (at least 1), the first time after a quarter of them.
  // `on_end` is called for each rebalancing that has ended.
  RebalanceSchedule(ExpertRebalancer& rebalancer, std::int64_t interval, OnEnd on_end);

  // Call after a step of n_tokens tokens (0: an empty step, which does not count): begins or
  // continues a rebalancing. Errors: the rebalancer's.
  Status AfterStep(std::int64_t n_tokens);
  // Completes a rebalancing that has begun.
  Status Finish();

 private:
  void End();

  ExpertRebalancer& rebalancer_;
  std::int64_t interval_;
  OnEnd on_end_;
  std::int64_t n_tokens_;  // tokens since the last rebalancing began
  bool has_begun_ = false;
};

}  // namespace fathom
