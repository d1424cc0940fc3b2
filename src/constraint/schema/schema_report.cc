#include "constraint/schema/schema_report.h"

#include <fmt/format.h>

#include "constraint/lists.h"
#include "json/json_pointer.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxRelaxed = 64;
constexpr std::size_t kMaxMergeSteps = 3'000'000;

}  // namespace

std::string PointerTo(const std::string& pointer, std::string_view keyword) {
  return pointer + "/" + EscapedPointerStep(keyword);
}

void SchemaReport::Fail(ConstraintErrorCode code, std::string pointer, std::string_view keyword,
                        std::string reason) {
  if (!failed_) {
    failed_ = true;
    error_.code = code;
    error_.message = fmt::format("schema at \"{}\": {}{}{}", pointer, keyword,
                                 keyword.empty() ? "" : ": ", reason);
  }
  if (error_.issues.size() >= kMaxIssues) return;
  for (const ConstraintIssue& issue : error_.issues) {
    if (issue.pointer == pointer && issue.keyword == keyword) return;
  }
  error_.issues.push_back({.pointer = std::move(pointer),
                           .keyword = std::string(keyword),
                           .reason = std::move(reason)});
}

void SchemaReport::Unsupported(const std::string& pointer, std::string_view keyword,
                               std::string reason) {
  ++n_unsupported_;
  if (strict_) {
    Fail(ConstraintErrorCode::kUnsupportedSchema, pointer, keyword, std::move(reason));
  } else {
    Ignored(pointer, keyword);
  }
}

void SchemaReport::Ignored(const std::string& pointer, std::string_view keyword) {
  if (relaxed_.size() >= kMaxRelaxed) return;
  AddNew(relaxed_, keyword.empty() ? pointer : PointerTo(pointer, keyword));
}

bool SchemaReport::Spend(std::size_t steps) {
  steps_ += steps;
  meter_.Spend(steps);
  if (steps_ > kMaxMergeSteps) FailCombinations();
  return !failed();
}

void SchemaReport::NoteEnd(const std::string& pointer) {
  if (!meter_.HasEnded() || failed_) return;
  const ConstraintError error = EndError(meter_).value();
  Fail(error.code, pointer, "", error.message);
}

void SchemaReport::FailCombinations() {
  if (failed_) return;
  Fail(ConstraintErrorCode::kTooLarge, "", "",
       "expected a schema whose parts combine in fewer ways, found too many combinations");
}

}  // namespace fathom::constraint
