// FailureDetector: whether the ranks of a run live, for whoever watches them: the launcher that
// started them, or the first of them where MPI did.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "comm/abort_flag.h"

namespace fathom {

// A rank that says nothing for so long is stopped, or hangs.
inline constexpr std::chrono::seconds kRankSilence{5};
// After the first failure: so long the others may say what they know. That another rank has gone
// is a consequence, if anybody knows better.
inline constexpr std::chrono::milliseconds kOtherWords{300};

// What is known of one rank, from its control socket (rank_link.h). One thread.
class WatchedRank {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WatchedRank(Descriptor control)
      : control_(std::move(control)), last_sign_(Clock::now()) {}

  int control() const { return control_.get(); }
  // Takes what it has said. False: it has closed its end.
  bool Hear();
  // Of now, if it has said nothing for too long.
  void FindSilence(Clock::time_point now);
  void Excuse(Clock::time_point now) { last_sign_ = now; }
  // It is over for this rank: the first reason stays.
  void Fail(Error error);

  void End() { has_ended_ = true; }

  const std::optional<Error>& failure() const { return failure_; }
  bool has_ended() const { return has_ended_; }  // as it should

 private:
  Descriptor control_;
  std::string text_;  // that came over it and is no whole line yet
  Clock::time_point last_sign_;
  bool has_ended_ = false;
  std::optional<Error> failure_;
};

// Fails those that have been silent for too long. last_turn: when this was last asked; if that is
// long ago, it is the watcher that was stopped, and nobody is blamed.
void FindSilences(std::span<WatchedRank> ranks, WatchedRank::Clock::time_point& last_turn);

// Why they fail, as "rank 2: ..."; the first of them is rank `first`. None: they do not.
std::optional<Error> CauseOf(std::span<const WatchedRank> ranks, int first);

// Called when a rank has not ended though it had to kOverdue ago: it computes, or waits for
// something that nobody can end. The reason is that of the alarm.
using OnOverdue = std::function<void(const Error& reason)>;
inline constexpr std::chrono::seconds kOverdue{4};

// Waits until then, or until the thread is to end.
void WaitForEnd(const std::stop_token& stop, const AbortFlag& alarm, const OnOverdue& on_overdue);

// Watches from a thread of its own, until it is destroyed. When a rank fails, raises the alarm and
// tells the others why.
class FailureDetector {
 public:
  // controls: of ranks 1, 2, ... The alarm outlives it.
  FailureDetector(std::vector<Descriptor> controls, AbortFlag& alarm, OnOverdue on_overdue);
  ~FailureDetector();

 private:
  void Watch(const std::stop_token& stop, AbortFlag& alarm);

  std::vector<WatchedRank> ranks_;
  const OnOverdue on_overdue_;
  std::jthread thread_;
};

}  // namespace fathom
