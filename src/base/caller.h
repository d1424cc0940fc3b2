// Caller: for whom work is done that may take long.
#pragma once

#include <string>

#include "base/stop_check.h"

namespace fathom {

struct Caller {
  // Names the client, for example by its key: clients take turns (base/fair_turns.h).
  std::string owner{};
  // Asked from time to time, by one thread at a time: true ends the work. May be empty.
  StopFunction is_abandoned{};
};

}  // namespace fathom
