// FailureDetector: checks that the ranks of a run are alive, in the launcher that started the
// ranks, or in the first rank if MPI started them.
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

namespace fathom::comm {

// A rank that is silent for this long is stopped or hangs.
inline constexpr std::chrono::seconds kRankSilence{5};
// The time after the first failure in which other ranks may report what they know. A lost
// connection is only a consequence if another rank knows the cause.
inline constexpr std::chrono::milliseconds kOtherWords{300};

// The state of one rank as its control socket (rank_link.h) reports it. One thread.
class WatchedRank {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WatchedRank(Descriptor control)
      : control_(std::move(control)), last_sign_(Clock::now()) {}

  int control() const { return control_.get(); }
  // Reads the lines that the rank has sent. False: the rank has closed its end.
  bool ReadMessages();
  // Fails the rank if it has been silent for too long.
  void FindSilence(Clock::time_point now);
  void Excuse(Clock::time_point now) { last_sign_ = now; }
  // Marks the rank as failed; the first reason stays.
  void Fail(Error error);

  void End() { has_ended_ = true; }

  const std::optional<Error>& failure() const { return failure_; }
  bool has_ended() const { return has_ended_; }  // in the regular way

 private:
  Descriptor control_;
  std::string text_;  // received bytes that are no whole line yet
  Clock::time_point last_sign_;
  bool has_ended_ = false;
  std::optional<Error> failure_;
};

// Fails the ranks that have been silent for too long. last_turn: the time of the last call; if that
// is long ago, the watcher itself was stopped, and no rank is blamed.
void FindSilences(std::span<WatchedRank> ranks, WatchedRank::Clock::time_point& last_turn);

// Returns the cause of the failures as "rank 2: ..."; the first element is rank `first`. None: no
// rank has failed.
std::optional<Error> FindCause(std::span<const WatchedRank> ranks, int first);

// Called when a rank has not ended though it had to kOverdue ago: it computes, or waits for
// something that cannot be ended. The reason is the error of the abort flag.
using OnOverdue = std::function<void(const Error& reason)>;
inline constexpr std::chrono::seconds kOverdue{4};

// Waits until the rank is overdue, or until the thread has to end.
void WaitForEnd(const std::stop_token& stop, const AbortFlag& abort_flag,
                const OnOverdue& on_overdue);

// Watches the ranks from its own thread until it is destroyed. When a rank fails, raises the abort
// flag and tells the other ranks why.
class FailureDetector {
 public:
  // controls: sockets of ranks 1, 2, ... The abort flag must outlive the detector.
  FailureDetector(std::vector<Descriptor> controls, AbortFlag& abort_flag, OnOverdue on_overdue);
  ~FailureDetector();

 private:
  void Watch(const std::stop_token& stop, AbortFlag& abort_flag);

  std::vector<WatchedRank> ranks_;
  const OnOverdue on_overdue_;
  std::jthread thread_;
};

}  // namespace fathom::comm
