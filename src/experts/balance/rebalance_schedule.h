// RebalanceSchedule: when experts are balanced anew.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "experts/balance/expert_rebalancer.h"

namespace fathom {

// Uses the rebalancer, which outlives it. All ranks call the same functions after the same steps.
class RebalanceSchedule {
 public:
  using OnEnd = std::function<void(const RebalanceReport&)>;

  // Every `interval` tokens (at least 1), the first time after a quarter of that. `on_end` is told
  // about each that has ended.
  RebalanceSchedule(ExpertRebalancer& rebalancer, std::int64_t interval, OnEnd on_end);

  // After a step of so many tokens (0: an empty one, which counts as none): begins, or goes on.
  // Errors: the rebalancer's.
  Status AfterStep(std::int64_t n_tokens);
  // Does what is left of one that has begun.
  Status Finish();

 private:
  void End();

  ExpertRebalancer& rebalancer_;
  std::int64_t interval_;
  OnEnd on_end_;
  std::int64_t n_tokens_;  // since the last one began
  bool has_begun_ = false;
};

}  // namespace fathom
