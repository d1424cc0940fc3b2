// Properties of rules that follow from all rules of a grammar together.
#pragma once

#include <vector>

#include "constraint/grammar/grammar.h"

namespace fathom::constraint {

struct RuleProperties {
  bool matches = false;       // some text of finite length matches
  bool is_recursive = false;  // the rule is called again below itself
  int height = 0;             // recursive rules open at once, with this one, in the flattest text
};

// Finds the properties of all rules; then calls of rules that match nothing become Nothing in all
// bodies, so that no text leads to them. Linear in the expressions of the pool, times the depth of
// calls against the order in which the rules were made.
std::vector<RuleProperties> FindRuleProperties(Grammar& grammar);

}  // namespace fathom::constraint
