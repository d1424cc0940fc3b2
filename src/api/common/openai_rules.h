// The rules that OpenAI has for strict schemas and this server does not need
// (docs/spec/constrained.md 1.2): for clients that are to run there, too.
#pragma once

#include <vector>

#include "constraint/constraint_error.h"
#include "json/json_value.h"

namespace fathom {

// Returns at most kMaxIssues places where the schema breaks a rule: the root is an object, and each
// object has "additionalProperties": false and lists all of its properties as required.
std::vector<ConstraintIssue> BrokenOpenAiRules(const JsonValue& schema);

}  // namespace fathom
