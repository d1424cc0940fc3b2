#include "cli/terminal/forced_end.h"

#include <cstdlib>

#include "base/signal_mask.h"

namespace fathom::cli {

void ForcedEnd::Watch() {
  const SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ForcedEnd::EndWithin(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  Clock::time_point known = end_;
  while (end < known && !end_.compare_exchange_weak(known, end)) {
  }
}

void ForcedEnd::Run(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kWatchTurn(20);
  while (!stop.stop_requested()) {
    if (interrupt_.Take()) {
      has_signal_ = true;
      EndWithin(kGrace);
    }
    if (Clock::now() >= end_.load()) {
      log_.Warn("stopped without waiting for requests that do not end");
      std::_Exit(EXIT_SUCCESS);
    }
    std::this_thread::sleep_for(kWatchTurn);
  }
}

}  // namespace fathom::cli
