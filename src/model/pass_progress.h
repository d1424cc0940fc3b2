// PassProgress: the progress of a pass that runs in pieces.
#pragma once

#include <cstdint>
#include <functional>

namespace fathom {

// Returns true once nobody waits for the result of a pass. Called on the thread of the model.
using ShouldStop = std::function<bool()>;

struct PassProgress {
  std::int64_t layers_done = 0;
  std::int64_t layers = 0;

  bool HasEnded() const { return layers_done == layers; }
};

}  // namespace fathom
