// ProductiveRules: finds the rules of a GBNF grammar that have a text at all.
#pragma once

#include <vector>

#include "constraint/readers/gbnf_text.h"

namespace fathom {

// By index of the rule: true if some text, perhaps the empty one, matches the rule. Linear.
std::vector<bool> ProductiveRules(const GbnfText& text);

}  // namespace fathom
