// PoolWatch: lets the pool of streamed experts shrink while others need memory, and grow again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/memory_pressure.h"
#include "runtime/options.h"
#include "runtime/pool_governor.h"

namespace fathom {

// Owns a thread that reads the pressure every 2 seconds. Destroy it before what `set_slots` uses.
class PoolWatch {
 public:
  // Called on the thread when the number of slots changes.
  using SetSlots = std::function<void(std::int64_t slots)>;

  PoolWatch(MemoryPressure pressure, PoolGovernor governor, SetSlots set_slots,
            RuntimeEvents events);

  // Reads and decides once: the body of the thread.
  static void Watch(MemoryPressure& pressure, PoolGovernor& governor, const SetSlots& set_slots,
                    const RuntimeEvents& events, MemoryPressure::Clock::time_point now);

 private:
  std::jthread thread_;  // ends when this object does
};

}  // namespace fathom
