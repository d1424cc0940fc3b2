// Caller: identifies the client for whom long work is done.
#pragma once

#include <string>

#include "base/stop_check.h"

namespace fathom {

struct Caller {
  // Names the client, for example by its key: clients take turns (base/fair_turns.h).
  std::string owner{};
  // Called from time to time, by one thread at a time; true ends the work. May be empty.
  StopFunction is_abandoned{};
};

}  // namespace fathom
