#include "kernels/profile.h"

#include <memory>

#include "kernels/backend.h"

namespace fathom {

double Profile::seconds() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.seconds;
  return sum;
}

Result<std::unique_ptr<Profiler>> Backend::MakeProfiler() {
  return MakeError(ErrorCode::kUnsupported,
                   "a profile: expected a backend made to be profiled, found {}", Name());
}

}  // namespace fathom
