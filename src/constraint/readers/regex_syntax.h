// RegexSyntax: a regular expression as a tree (docs/spec/constrained.md 2.3), in the syntax of
// ECMA-262 with the flag u, and of its appendix B where this has only one meaning ({ and ] as they
// are).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/readers/code_points.h"

namespace fathom::constraint {

struct RegexNode {
  enum class Kind : std::uint8_t {
    kSet,          // a code point of a set
    kConcat,       // all children
    kAlternation,  // one of the children
    kRepeat,       // the child
    kStart,        // ^
    kEnd,          // $
    kLookahead,    // (?=child), or (?!child) if negative
  };
  Kind kind = Kind::kConcat;
  bool negative = false;
  bool has_anchors = false;     // ^ or $ occur
  bool has_lookaheads = false;  // lookaheads occur
  bool zero_width = false;      // never takes any text
  std::uint32_t set = 0;        // kSet: index in RegexSyntax::sets
  std::uint32_t minimum = 0;    // kRepeat; as in expression.h
  std::uint32_t maximum = 0;
  std::vector<std::uint32_t> children{};  // indices in RegexSyntax::nodes
};

struct RegexSyntax {
  std::vector<RegexNode> nodes;
  std::vector<CodePointSet> sets;
  std::uint32_t root = 0;
};

// Errors as ParseRegex (regex.h). Groups are nested at most `max_depth` deep. O(length), but for
// classes O(length log length).
ConstraintResult<RegexSyntax> ParseRegexSyntax(std::string_view text, int max_depth);

}  // namespace fathom::constraint
