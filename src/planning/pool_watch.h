// PoolWatch: shrinks the pool of streamed experts while other programs need memory, and lets it
// grow again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/memory_pressure.h"
#include "planning/options.h"
#include "planning/pool_governor.h"

namespace fathom {

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

}  // namespace fathom
