// The symbols of a GBNF grammar: literals, classes, tokens, and the suffixes that repeat them.
//
// Each function reads one symbol at the cursor. After an error, which the cursor keeps, the result
// must not be used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "constraint/grammar/expression.h"
#include "constraint/readers/code_points.h"
#include "constraint/readers/gbnf.h"
#include "constraint/readers/gbnf_cursor.h"

namespace fathom::constraint {

// "...": appends the text as UTF-8.
void ReadGbnfLiteral(GbnfCursor& cursor, std::string& text);

// [...] or [^...]. Surrogates are no code points and are left out; the set may be empty.
CodePointSet ReadGbnfClass(GbnfCursor& cursor);

// <[id]> or <text>: the token with this id, or the one whose text is <text> with its brackets.
std::optional<Token> ReadGbnfToken(GbnfCursor& cursor, const GbnfOptions& options);

struct GbnfRepeat {
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
};
// * + ? {m} {m,} {,n} {m,n}; blanks within braces may have ends of lines if `newlines`.
std::optional<GbnfRepeat> ReadGbnfRepeat(GbnfCursor& cursor, bool newlines);

}  // namespace fathom::constraint
