// Regular expressions of JSON Schema's `pattern` and of the field `regex`, as expressions over
// UTF-8 (docs/spec/constrained.md 2.3).
#pragma once

#include <cstddef>
#include <string_view>

#include "constraint/constraint_error.h"
#include "constraint/expression.h"
#include "constraint/spelling.h"

namespace fathom {

struct RegexOptions {
  bool anchored = false;  // the whole text matches; else some part of it does, as in `pattern`
  SpellCodePoints spell = Utf8;
  std::size_t max_bytes = 64 * 1024;  // of the expression
  int max_depth = 256;                // of groups
};

// \d and \w are those of ASCII, \s and . those of ECMA-262. Issues have pointer "" and a reason
// that gives the offset in the text. kUnsupportedSchema for look-behind, back-references, \b and
// the like; kInvalidSchema for what is no regular expression; kTooLarge for what is longer, nested
// deeper or built from more than the bounds. The expression may have no texts at all, which
// for lookaheads only ExpressionPool::Prune sees.
ConstraintResult<ExpressionId> ParseRegex(ExpressionPool& pool, std::string_view text,
                                          const RegexOptions& options);

}  // namespace fathom
