// Code points as bytes: in UTF-8, or within a JSON string.
#pragma once

#include <functional>

#include "constraint/grammar/expression.h"
#include "constraint/readers/code_points.h"

namespace fathom::constraint {

// One code point of the set, as UTF-8: no surrogates, nothing overlong, nothing above U+10FFFF.
ExpressionId Utf8(ExpressionPool& pool, const CodePointSet& set);

// Spells code points: as UTF-8, or within a JSON string, where each has one spelling
// (docs/spec/constrained.md 2.1): raw if it is neither ", \ nor below U+0020, else the shortest
// escape, with lower-case hexadecimal digits.
using SpellCodePoints = std::function<ExpressionId(ExpressionPool&, const CodePointSet&)>;
ExpressionId SpellInJson(ExpressionPool& pool, const CodePointSet& set);

}  // namespace fathom::constraint
