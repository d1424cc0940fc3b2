#include "experts/balance/rebalance_schedule.h"

#include <utility>

#include "base/check.h"

namespace fathom {

RebalanceSchedule::RebalanceSchedule(ExpertRebalancer& rebalancer, std::int64_t interval,
                                     OnEnd on_end)
    : rebalancer_(rebalancer),
      interval_(interval),
      on_end_(std::move(on_end)),
      n_tokens_(interval - interval / 4) {
  Check(interval >= 1, "an interval of at least one token");
}

Status RebalanceSchedule::AfterStep(std::int64_t n_tokens) {
  n_tokens_ += n_tokens;
  if (has_begun_) {
    const Result<bool> advanced = rebalancer_.Advance();
    if (advanced && *advanced) {
      End();
    }
    return advanced ? Status() : Unexpected(advanced.error());
  }
  if (n_tokens_ < interval_) return {};
  n_tokens_ = 0;
  has_begun_ = true;
  return rebalancer_.Start();
}

Status RebalanceSchedule::Finish() {
  if (!has_begun_) return {};
  Status finished = rebalancer_.Finish();
  if (finished) {
    End();
  }
  return finished;
}

void RebalanceSchedule::End() {
  has_begun_ = false;
  on_end_(rebalancer_.report());
}

}  // namespace fathom
