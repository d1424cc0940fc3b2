#include "constraint/constraint_error.h"

#include <fmt/format.h>

#include <utility>

#include "constraint/work_meter.h"

namespace fathom::constraint {

tl::unexpected<ConstraintError> MakeConstraintError(ConstraintErrorCode code, std::string message,
                                                    std::string keyword, std::string pointer) {
  ConstraintIssue issue = {std::move(pointer), std::move(keyword), message};
  return tl::unexpected(ConstraintError{code, std::move(message), {std::move(issue)}});
}

tl::unexpected<ConstraintError> EndError(const WorkMeter& meter) {
  switch (meter.end()) {
    case WorkMeter::End::kStopped:
      return MakeConstraintError(ConstraintErrorCode::kStopped,
                                 "nobody waits for the constraint any more");
    case WorkMeter::End::kBytes:
      return MakeConstraintError(
          ConstraintErrorCode::kTooLarge,
          fmt::format("expected a constraint that compiles within {} MiB, found more",
                      meter.limits().bytes >> 20));
    default:
      return MakeConstraintError(
          ConstraintErrorCode::kTooLarge,
          fmt::format("expected a constraint that compiles in {} steps, found more",
                      meter.limits().steps));
  }
}

}  // namespace fathom::constraint
