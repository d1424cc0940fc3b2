// The paces of masks: decide on which thread the computation of a mask continues, and whether.
#pragma once

#include <chrono>
#include <optional>

#include "base/fair_turns.h"
#include "base/this_thread.h"
#include "constraint/work_pace.h"
#include "engine/mask_pool.h"

namespace fathom::engine {

// The pace of a mask on a quick or slow thread of the pool. A quick thread becomes slow once the
// mask has taken long.
class MaskPool::Pace final : public WorkPace {
 public:
  // Processor time of a slow mask: twice the time that a step waits for a mask.
  static constexpr double kSlowSeconds = 0.004;

  // `mask` must outlive the pace.
  Pace(MaskPool& pool, const PendingMask& mask, bool is_slow);

  bool GoesOn() override;
  void BeginWait() override;
  void EndWait() override;

  // Releases the slow place, if the thread has one.
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

// The pace of a mask that the caller of Ask, the thread that runs the model, computes. It stops the
// work when repeating all of it on a slow thread would delay others less.
class MaskPool::AskersPace final : public WorkPace {
 public:
  bool GoesOn() override;
  void BeginWait() override { wait_begin_ = Clock::now(); }
  void EndWait() override;
  bool has_ended() const { return has_ended_; }

 private:
  using Clock = std::chrono::steady_clock;
  // The time of a few steps of a model. Masks that only seem quick take less, except with malicious
  // input.
  static constexpr double kLongestSeconds = 0.02;
  static constexpr Clock::duration kLongestWait = std::chrono::milliseconds(20);

  ThreadWatch watch_;
  std::optional<Clock::time_point> wait_begin_;  // start of the current wait; none: no wait
  Clock::duration waited_{};                     // earlier waits
  bool has_ended_ = false;
};

}  // namespace fathom::engine
