#include "planning/pool_governor.h"

#include <algorithm>

#include "base/integer_math.h"

namespace fathom {

std::int64_t PoolGovernor::Decide(const PressureReading& reading, Clock::time_point now) {
  constexpr auto kCalm = std::chrono::seconds(60);
  constexpr auto kGrowth = std::chrono::seconds(10);
  if (reading.is_short() || reading.swapped > 0) {
    is_exhausted_ = slots_ == least_;
    const std::int64_t tenth = DivideUp(slots_, 10);
    const std::int64_t swapped = std::min(DivideUp(reading.swapped, slot_bytes_), slots_);
    slots_ = std::max(least_, slots_ - std::max(tenth, swapped));
    last_change_ = now;
    grows_ = false;
    return slots_;
  }
  if (!last_change_ || now - *last_change_ < (grows_ ? kGrowth : kCalm)) return slots_;
  is_exhausted_ = false;
  slots_ = std::min(most_, slots_ + DivideUp(most_, 50));
  last_change_ = now;
  grows_ = true;
  return slots_;
}

}  // namespace fathom
