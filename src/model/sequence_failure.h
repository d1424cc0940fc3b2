// SequenceFailure: a sequence of a step that has failed while the others continued; ExpertFailure:
// an expert that could not be read for some sequences.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace fathom::model {

struct SequenceFailure {
  std::int32_t sequence = 0;  // slot in the caches
  Error error;
};

struct ExpertFailure {
  std::int64_t block = 0;
  std::int32_t expert = 0;
  Error error;
};

}  // namespace fathom::model
