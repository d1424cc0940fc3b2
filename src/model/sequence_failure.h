// SequenceFailure: a sequence of a step that has failed while the others went on.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace fathom {

struct SequenceFailure {
  std::int32_t sequence = 0;  // slot in the caches
  Error error;
};

}  // namespace fathom
