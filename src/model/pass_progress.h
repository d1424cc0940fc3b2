// PassProgress: how far a pass is that runs in pieces.
#pragma once

#include <cstdint>

namespace fathom {

struct PassProgress {
  std::int64_t layers_done = 0;
  std::int64_t layers = 0;

  bool HasEnded() const { return layers_done == layers; }
};

}  // namespace fathom
