// The format "regex" (JSON Schema 2020-12, 7.3.8): regular expressions of ECMA-262.
#pragma once

#include "constraint/grammar/expression.h"
#include "constraint/schema/string_predicates.h"

namespace fathom {

// The texts that are valid regular expressions with at most 8 nested groups. Forms that engines
// read differently are left out: brackets and braces that stand for themselves, empty classes,
// ranges whose order is not known, {n,m} with n above 19.
ExpressionId RegexFormat(TextWriter& writer);

}  // namespace fathom
