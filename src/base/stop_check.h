// StopCheck: lets a caller end long work early.
#pragma once

#include <cstddef>
#include <functional>

namespace fathom {

// Returns whether the result is no longer needed. May be empty: the work then runs to its end.
using StopFunction = std::function<bool()>;

// Calls a stop function at most once per 64 Ki steps of some work.
class StopCheck {
 public:
  // `stop` must outlive the object.
  explicit StopCheck(const StopFunction& stop) : stop_(stop) {}

  // `position`: the completed steps, for example the bytes of a text that have been read.
  bool IsStopped(std::size_t position) {
    if (position < next_) return false;
    next_ = position + kSteps;
    return stop_ && stop_();
  }

 private:
  static constexpr std::size_t kSteps = std::size_t{64} << 10;
  const StopFunction& stop_;
  std::size_t next_ = kSteps;
};

}  // namespace fathom
