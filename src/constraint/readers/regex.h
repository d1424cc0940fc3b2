// Regular expressions of JSON Schema's `pattern` and of the field `regex`, as expressions over
// UTF-8 (docs/spec/constrained.md 2.3).
#pragma once

#include <cstddef>
#include <string_view>

#include "constraint/constraint_error.h"
#include "constraint/grammar/expression.h"
#include "constraint/readers/spelling.h"

namespace fathom::constraint {

struct RegexOptions {
  bool anchored = false;  // the whole text matches; else some part of it does, as in `pattern`
  SpellCodePoints spell = Utf8;
  std::size_t max_bytes = 64 * 1024;  // the length of the expression
  int max_depth = 256;                // nested groups
};

// \d and \w match ASCII only; \s and . match as in ECMA-262. Issues have pointer "" and a reason
// that gives the offset in the text. Errors: kUnsupportedSchema for look-behind, back-references,
// \b and the like; kInvalidSchema for a text that is no regular expression; kTooLarge for one that
// is longer, nested deeper or built from more than the bounds allow. The expression may have no
// texts at all; for lookaheads only ExpressionPool::Prune finds this.
ConstraintResult<ExpressionId> ParseRegex(ExpressionPool& pool, std::string_view text,
                                          const RegexOptions& options);

}  // namespace fathom::constraint
