// Waits for other threads, and the priority of a thread, for tests.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <thread>

namespace fathom::testing {

// As TakeLeastPriority sets it.
inline constexpr int kLeastPriority = 19;

// Returns the priority of the calling thread.
inline int Priority() { return ::getpriority(PRIO_PROCESS, 0); }

// Waits for other threads; false if they have not done it within a minute, which is long enough for
// any machine: only a test that fails waits so long.
inline bool Await(const std::function<bool()>& is_done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace fathom::testing
