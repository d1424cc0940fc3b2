// TimedMutex: a mutex for which a thread can wait for a limited time, like std::timed_mutex, whose
// waits the thread sanitizer of GCC 12 does not see. Costs one atomic operation without waiting
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fathom {

// Has the interface that std::unique_lock needs.
class TimedMutex {
 public:
  void lock() {
    if (try_lock()) return;
    std::unique_lock lock(mutex_);
    unlocked_.wait(lock, [this] { return LockAwaited(); });
  }
  bool try_lock() {
    State free = State::kFree;
    return state_.compare_exchange_strong(free, State::kLocked, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& time) {
    if (try_lock()) return true;
    std::unique_lock lock(mutex_);
    return unlocked_.wait_for(lock, time, [this] { return LockAwaited(); });
  }
  void unlock() {
    if (state_.exchange(State::kFree, std::memory_order_acq_rel) != State::kAwaited) return;
    {
      // A thread that found the mutex locked is already waiting once this lock is held.
      const std::lock_guard lock(mutex_);
    }
    unlocked_.notify_one();
  }

 private:
  enum class State { kFree, kLocked, kAwaited };  // kAwaited: locked, and threads may wait

  // Call while holding mutex_.
  bool LockAwaited() {
    return state_.exchange(State::kAwaited, std::memory_order_acq_rel) == State::kFree;
  }

  std::mutex mutex_;  // for the waits
  std::condition_variable unlocked_;
  std::atomic<State> state_{State::kFree};
};

}  // namespace fathom
