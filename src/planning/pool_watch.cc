#include "planning/pool_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "base/gigabytes.h"
#include "base/guarded.h"
#include "base/integer_math.h"

namespace fathom::planning {
namespace {

constexpr auto kWindow = std::chrono::seconds(2);

std::string DescribePressure(const PressureReading& reading) {
  if (reading.swapped > 0) {
    return fmt::format("{:.3f} GB of this process are swapped", Gigabytes(reading.swapped));
  }
  if (reading.hit_limit) return "a control group has reached its limit";
  if (reading.below_reserve) return "the machine has little memory available";
  return fmt::format("{:.0f} % of the time something waited for memory", 100 * reading.stalled);
}

}  // namespace

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

void PoolWatch::Watch(MemoryPressure& pressure, PoolGovernor& governor, const SetPool& set_pool,
                      const RuntimeEvents& events, MemoryPressure::Clock::time_point now) {
  const PressureReading reading = pressure.Read(now);
  const std::int64_t before = governor.slots();
  const bool allowed_guesses = governor.allows_guesses();
  const bool was_exhausted = governor.is_exhausted();
  const std::int64_t slots = governor.Decide(reading, now);
  if (slots != before || governor.allows_guesses() != allowed_guesses) {
    set_pool(slots, governor.allows_guesses());
  }
  // Warn once per period of pressure, not for each of its readings.
  if (slots < before && before == governor.most_slots()) {
    events.Warn("memory pressure: {}; the pool of experts shrinks from {} slots",
                DescribePressure(reading), before);
  } else if (governor.is_exhausted() && !was_exhausted) {
    events.Warn("memory pressure: {}, with the least pool of {} experts", DescribePressure(reading),
                slots);
  } else if (slots > before && slots == governor.most_slots()) {
    events.Info("memory pressure is over; the pool of experts has {} slots again", slots);
  }
}

PoolWatch::PoolWatch(MemoryPressure pressure, PoolGovernor governor, SetPool set_pool,
                     RuntimeEvents events)
    : thread_([pressure = std::move(pressure), governor = std::move(governor),
               set_pool = std::move(set_pool),
               events = std::move(events)](std::stop_token stop) mutable {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          // A read or a report that fails now is tried again later.
          static_cast<void>(Guarded([&]() -> Status {
            Watch(pressure, governor, set_pool, events, MemoryPressure::Clock::now());
            return {};
          }));
          wake.wait_for(lock, stop, kWindow, [] { return false; });
        }
      }) {}

}  // namespace fathom::planning
