// ForcedEnd: ends a program at the second signal to stop, whatever its threads do.
#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/log.h"

namespace fathom::cli {

// Watch starts a thread that waits. The process then ends without destructors, with exit code 0, as
// after the first signal.
class ForcedEnd {
 public:
  // Both must outlive this object.
  ForcedEnd(Interrupt& interrupt, Log& log) : interrupt_(interrupt), log_(log) {}

  // Watches for a signal: no other thread may take it from now on. Gives running work kGrace to end
  // by itself.
  void Watch();
  // Returns whether that signal has arrived. Any thread.
  bool has_signal() const { return has_signal_; }
  // Ends the process after `time` at the latest. Any thread.
  void EndWithin(std::chrono::milliseconds time);

  static constexpr std::chrono::milliseconds kGrace{300};

 private:
  using Clock = std::chrono::steady_clock;

  void Run(const std::stop_token& stop);

  Interrupt& interrupt_;
  Log& log_;
  std::atomic<bool> has_signal_ = false;
  std::atomic<Clock::time_point> end_ = Clock::time_point::max();
  std::jthread thread_;
};

}  // namespace fathom::cli
