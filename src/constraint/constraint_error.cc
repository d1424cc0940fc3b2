#include "constraint/constraint_error.h"

#include <fmt/format.h>

#include "constraint/work_meter.h"

namespace fathom {

ConstraintError EndError(const WorkMeter& meter) {
  ConstraintError error = {.code = ConstraintErrorCode::kTooLarge};
  if (meter.end() == WorkMeter::End::kStopped) {
    error.code = ConstraintErrorCode::kStopped;
    error.message = "nobody waits for the constraint any more";
  } else if (meter.end() == WorkMeter::End::kBytes) {
    error.message = fmt::format("expected a constraint that compiles within {} MiB, found more",
                                meter.limits().bytes >> 20);
  } else {
    error.message = fmt::format("expected a constraint that compiles in {} steps, found more",
                                meter.limits().steps);
  }
  error.issues = {{.reason = error.message}};
  return error;
}

}  // namespace fathom
