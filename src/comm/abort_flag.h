// AbortFlag: the one reason why all ranks of a run have to stop.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace fathom {

// Any thread may raise it and ask for it. The first error stays; what comes later is its
// consequence.
class AbortFlag {
 public:
  // True: this was the first.
  bool Raise(Error error) {
    const std::lock_guard lock(mutex_);
    if (error_) {
      return false;
    }
    error_ = std::move(error);
    raised_.store(true, std::memory_order_release);
    return true;
  }
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  // The error, once raised. Stays where it is.
  Status Check() const {
    if (!raised()) {
      return {};
    }
    const std::lock_guard lock(mutex_);
    return Unexpected(*error_);
  }

 private:
  std::atomic<bool> raised_ = false;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace fathom
