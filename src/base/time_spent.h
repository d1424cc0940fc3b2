// TimeSpent: adds the seconds of its lifetime to a sum.
#pragma once

#include <chrono>

namespace fathom {

// `seconds` must outlive this object.
class TimeSpent {
 public:
  explicit TimeSpent(double& seconds) : seconds_(seconds) {}
  ~TimeSpent() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  TimeSpent(const TimeSpent&) = delete;
  TimeSpent& operator=(const TimeSpent&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace fathom
