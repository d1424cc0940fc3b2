// PoolGovernor: decides how many experts may stay in memory while other programs need memory, too
// (docs/spec/streaming.md 5).
//
//   pressure  10 % of the slots less, every time, down to the least
//   swap      as many slots less as are swapped, at least 10 %
//   calm      after 60 seconds, 2 % of all slots more every 10 seconds, up to all; until then no
//             experts are guessed
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/memory_pressure.h"

namespace fathom {

// Only decides: it has no clock and no thread of its own.
class PoolGovernor {
 public:
  using Clock = MemoryPressure::Clock;

  PoolGovernor(std::int64_t most_slots, std::int64_t least_slots, std::int64_t slot_bytes)
      : most_(most_slots), least_(least_slots), slot_bytes_(slot_bytes), slots_(most_slots) {}

  // Returns the number of slots from `now` on.
  std::int64_t Decide(const PressureReading& reading, Clock::time_point now);

  std::int64_t slots() const { return slots_; }
  std::int64_t most_slots() const { return most_; }
  // Returns whether experts may be guessed: there is no pressure, and was none for a while.
  bool allows_guesses() const { return !last_change_ || grows_; }
  // Returns true if even the least pool is too much.
  bool is_exhausted() const { return is_exhausted_; }

 private:
  std::int64_t most_, least_, slot_bytes_;
  std::int64_t slots_;
  bool is_exhausted_ = false;
  std::optional<Clock::time_point> last_change_;  // pressure or growth
  bool grows_ = false;                            // the last change was growth
};

}  // namespace fathom
