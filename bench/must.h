// Must: ends a benchmark on an error.
#pragma once

#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace fathom::benchmarks {

// An error ends the program with its message.
inline void Must(const Status& status) {
  Check(status.has_value(), status ? "" : status.error().message);
}

template <class T>
T Must(Result<T> result) {
  Check(result.has_value(), result ? "" : result.error().message);
  return *std::move(result);
}

}  // namespace fathom::benchmarks
