// SchemaReport: the errors and relaxed keywords that the parts of the schema compiler find.
//
// Errors stick: the parts go on with any value after Fail, and their caller asks failed().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/work_meter.h"

namespace fathom::constraint {

class SchemaReport {
 public:
  // `meter` must outlive the report.
  SchemaReport(bool strict, WorkMeter& meter) : strict_(strict), meter_(meter) {}

  // The first call decides the code; at most kMaxIssues issues are kept.
  void Fail(ConstraintErrorCode code, std::string pointer, std::string_view keyword,
            std::string reason);
  // A keyword that cannot be enforced: an error if strict, else it is listed as relaxed.
  void Unsupported(const std::string& pointer, std::string_view keyword, std::string reason);
  // Lists a keyword as relaxed whether strict or not: annotations and unknown keywords.
  void Ignored(const std::string& pointer, std::string_view keyword);

  // Counts steps of merging; too many fail with kTooLarge. Returns false after a failure.
  bool Spend(std::size_t steps);
  // Counts all work; once the work has ended, all parts go on as after a failure.
  WorkMeter& meter() { return meter_; }
  // Fails if the work has ended. `pointer`: the schema that was being read.
  void NoteEnd(const std::string& pointer);
  // Fails with kTooLarge, as too many steps do.
  void FailCombinations();

  bool strict() const { return strict_; }
  // Calls of Unsupported so far.
  std::size_t n_unsupported() const { return n_unsupported_; }
  bool failed() const { return failed_ || meter_.HasEnded(); }
  ConstraintError TakeError() { return std::move(error_); }
  // JSON pointers, each once.
  const std::vector<std::string>& relaxed() const { return relaxed_; }

 private:
  bool strict_;
  WorkMeter& meter_;
  bool failed_ = false;
  std::size_t steps_ = 0;
  std::size_t n_unsupported_ = 0;
  ConstraintError error_{};
  std::vector<std::string> relaxed_{};
};

// "pointer/keyword", the keyword escaped as RFC 6901 says.
std::string PointerTo(const std::string& pointer, std::string_view keyword);

}  // namespace fathom::constraint
