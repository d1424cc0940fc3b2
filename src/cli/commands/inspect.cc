#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/inspection.h"
#include "cli/terminal/output.h"
#include "runtime/model_files.h"

namespace fathom::cli {

Status RunCommand(const InspectCommand& command, Log&) {
  const Result<std::filesystem::path> directory = FindModel(command.model);
  if (!directory) return Unexpected(directory.error());
  const Inspection inspection = InspectModel(*directory, command);
  const Status printed =
      Print(command.json ? InspectionToJson(inspection) : DescribeInspection(inspection));
  if (!printed) return printed;
  std::size_t n_problems = 0;
  for (const ProblemGroup& group : inspection.problems) {
    n_problems += group.problems.size();
  }
  if (n_problems > 0) {
    return MakeError(ErrorCode::kInvalidData, "{}: {} problem{}", directory->string(), n_problems,
                     n_problems == 1 ? "" : "s");
  }
  return {};
}

}  // namespace fathom::cli
