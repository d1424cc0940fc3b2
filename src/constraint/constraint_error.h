// ConstraintError: why a schema, a grammar or a regular expression is refused
// (docs/spec/constrained.md 1.2).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace fathom::constraint {

enum class ConstraintErrorCode {
  kUnsupportedSchema,
  kInvalidSchema,
  kUnsatisfiableSchema,
  kTooLarge,
  kInvalidGrammar,
  kStopped,  // nobody needs the constraint any more
};
// "unsupported_schema", "invalid_schema", "unsatisfiable_schema", "constraint_too_large",
// "invalid_grammar", "constraint_stopped"
constexpr std::string_view Name(ConstraintErrorCode code) {
  constexpr std::string_view kNames[] = {"unsupported_schema",   "invalid_schema",
                                         "unsatisfiable_schema", "constraint_too_large",
                                         "invalid_grammar",      "constraint_stopped"};
  return kNames[static_cast<int>(code)];
}

// A reason for a refusal, and its place in the text of a constraint.
struct ConstraintIssue {
  std::string pointer{};  // RFC 6901, from the root of the schema; in a grammar "line:column"
  std::string keyword{};  // the keyword of the schema, or ""
  std::string reason{};
};

inline constexpr std::size_t kMaxIssues = 8;

struct ConstraintError {
  ConstraintErrorCode code = ConstraintErrorCode::kInvalidSchema;
  std::string message{};                  // one sentence with the first issue
  std::vector<ConstraintIssue> issues{};  // at most kMaxIssues
};

// Returns an error with one issue, whose reason is the message.
tl::unexpected<ConstraintError> MakeConstraintError(ConstraintErrorCode code, std::string message,
                                                    std::string keyword = "",
                                                    std::string pointer = "");

class WorkMeter;
// The error for work that the meter has ended. The work must have ended.
tl::unexpected<ConstraintError> EndError(const WorkMeter& meter);

template <class T>
using ConstraintResult = tl::expected<T, ConstraintError>;

}  // namespace fathom::constraint
