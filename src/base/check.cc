#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace fathom {

void CheckFailed(std::string_view what, const char* file, int line) {
  std::fprintf(stderr, "fathom: broken invariant: %.*s (%s:%d)\n", static_cast<int>(what.size()),
               what.data(), file, line);
  std::abort();
}

}  // namespace fathom
