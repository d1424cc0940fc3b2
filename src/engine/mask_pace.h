// The paces of masks: which thread computes a mask on, and whether.
#pragma once

#include <chrono>
#include <optional>

#include "base/fair_turns.h"
#include "base/this_thread.h"
#include "constraint/work_pace.h"
#include "engine/mask_pool.h"

namespace fathom {

// The pace of a mask on a thread of the pool, which is quick or slow; a quick one becomes slow once
// the mask has taken long.
class MaskPool::Pace final : public WorkPace {
 public:
  // Processor time of a slow mask: twice the time that a step waits for a mask.
  static constexpr double kSlowSeconds = 0.004;

  // `mask` must outlive the pace.
  Pace(MaskPool& pool, const PendingMask& mask, bool is_slow);

  bool GoesOn() override;
  void BeginWait() override;
  void EndWait() override;

  // Gives the slow place back, if there is one.
  void Leave();
  bool is_slow() const { return slow_turn_.has_value(); }

 private:
  void BecomeSlow();

  MaskPool& pool_;
  const PendingMask& mask_;
  ThreadWatch watch_;
  std::optional<FairTurn> slow_turn_;
  bool waits_ = false;
};

// The pace of a mask that its asker computes, which is the thread that runs the model. It ends the
// work where even doing all of it again, on a slow thread, delays others less.
class MaskPool::AskersPace final : public WorkPace {
 public:
  bool GoesOn() override;
  void BeginWait() override { wait_begin_ = Clock::now(); }
  void EndWait() override;
  bool has_ended() const { return has_ended_; }

 private:
  using Clock = std::chrono::steady_clock;
  // A few steps of a model. Masks that seem quick and are not take less, except where somebody
  // means harm.
  static constexpr double kLongestSeconds = 0.02;
  static constexpr Clock::duration kLongestWait = std::chrono::milliseconds(20);

  ThreadWatch watch_;
  std::optional<Clock::time_point> wait_begin_;  // while it waits
  Clock::duration waited_{};                     // before
  bool has_ended_ = false;
};

}  // namespace fathom
