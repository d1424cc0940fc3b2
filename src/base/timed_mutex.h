// TimedMutex: a mutex that a thread can await for some time, like std::timed_mutex, whose waits the
// thread sanitizer of GCC 12 does not see.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fathom {

// As std::unique_lock wants it.
class TimedMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    unlocked_.wait(lock, [this] { return !is_locked_; });
    is_locked_ = true;
  }
  bool try_lock() {
    const std::lock_guard lock(mutex_);
    if (is_locked_) return false;
    return is_locked_ = true;
  }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& time) {
    std::unique_lock lock(mutex_);
    if (!unlocked_.wait_for(lock, time, [this] { return !is_locked_; })) return false;
    return is_locked_ = true;
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      is_locked_ = false;
    }
    unlocked_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable unlocked_;
  bool is_locked_ = false;  // guarded
};

}  // namespace fathom
