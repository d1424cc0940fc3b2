// Checks OpenAI's rules for strict schemas, which this server does not need
// (docs/spec/constrained.md 1.2): for clients that should also run with OpenAI.
#pragma once

#include <vector>

#include "constraint/constraint_error.h"
#include "json/json_value.h"

namespace fathom::api {

// Returns at most kMaxIssues places where the schema breaks a rule: the root is an object, and each
// object has "additionalProperties": false and lists all of its properties as required.
std::vector<ConstraintIssue> BrokenOpenAiRules(const JsonValue& schema);

}  // namespace fathom::api
