// AbortFlag: the single reason why all ranks of a run have to stop.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace fathom::comm {

// Any thread may raise and check the flag. The first error stays, since later errors are its
// consequences.
class AbortFlag {
 public:
  // Returns true if this error is the first.
  bool Raise(Error error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    raised_.store(true, std::memory_order_release);
    return true;
  }
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  // Returns the error, once raised. The error stays in the flag.
  Status Check() const {
    if (!raised()) return {};
    const std::lock_guard lock(mutex_);
    return Unexpected(*error_);
  }

 private:
  std::atomic<bool> raised_ = false;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace fathom::comm
