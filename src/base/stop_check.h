// StopCheck: lets a caller end long work early.
#pragma once

#include <cstddef>
#include <functional>

namespace fathom {

// Returns whether nobody needs the result any more. May be empty: the work goes on to its end.
using StopFunction = std::function<bool()>;

// Asks a function at most once per 64 Ki steps of some work whether to stop.
class StopCheck {
 public:
  // `stop` must outlive the object.
  explicit StopCheck(const StopFunction& stop) : stop_(stop) {}

  // `position`: the steps that are done, for example the bytes of a text that have been read.
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
