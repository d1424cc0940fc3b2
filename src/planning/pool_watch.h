// PoolWatch: shrinks the pool of streamed experts while other programs need memory, and lets it
// grow again (docs/spec/streaming.md 5).
//
//   pressure  10 % of the slots less, every time, down to the least
//   swap      as many slots less as are swapped, at least 10 %
//   calm      after 60 seconds, 2 % of all slots more every 10 seconds, up to all; until then no
//             experts are guessed
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "base/memory_pressure.h"
#include "planning/options.h"

namespace fathom::planning {

// Decides how many experts may stay in memory. Has no clock and no thread of its own.
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

// Owns a thread that reads the pressure every 2 seconds. Destroy it before the objects that
// `set_pool` uses.
class PoolWatch {
 public:
  // Called on the thread when the number of slots changes, or the permission to guess experts.
  using SetPool = std::function<void(std::int64_t slots, bool allows_guesses)>;

  PoolWatch(MemoryPressure pressure, PoolGovernor governor, SetPool set_pool, RuntimeEvents events);

  // Reads and decides once. This is the body of the thread's loop.
  static void Watch(MemoryPressure& pressure, PoolGovernor& governor, const SetPool& set_pool,
                    const RuntimeEvents& events, MemoryPressure::Clock::time_point now);

 private:
  std::jthread thread_;  // joined by the destructor
};

}  // namespace fathom::planning
