// JSON documents within strings: contentMediaType application/json, where it asserts something.
#pragma once

#include "constraint/grammar/expression.h"
#include "constraint/schema/string_predicates.h"

namespace fathom {

// The texts of JSON documents with at most 12 nested arrays and objects, with any amount of white
// space, spelled as the writer spells texts.
ExpressionId JsonContent(TextWriter& writer);

}  // namespace fathom
