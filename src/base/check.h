// Check: aborts on a broken invariant of the program. Errors that the outside world causes are a
// Result.
#pragma once

#include <string_view>

#include "base/namespaces.h"

namespace fathom {

[[noreturn]] void CheckFailed(std::string_view what, const char* file, int line);

// Aborts with `what`, file and line if `ok` is false. On in all builds; not for inner loops.
inline void Check(bool ok, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!ok) [[unlikely]] {
    CheckFailed(what, file, line);
  }
}

}  // namespace fathom
