// GbnfText: a GBNF grammar, read into rules whose names are resolved, but not yet built
// (docs/spec/constrained.md 2.4).
//
// A rule's body is a list of steps for a stack machine: a symbol pushes one expression; an operator
// replaces the topmost ones by its result. Nothing that walks the steps needs recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/readers/code_points.h"
#include "constraint/readers/gbnf.h"

namespace fathom::constraint {

struct GbnfStep {
  enum class Kind : std::uint8_t {
    kLiteral,     // a: offset in GbnfText::literals; b: bytes
    kClass,       // a: index of GbnfText::classes
    kToken,       // a: the token
    kOtherToken,  // a: the token that is excluded
    kRule,        // a: index of the rule; b: offset of its name in the source
    kConcat,      // a: number of operands, 0 for the empty text
    kOr,          // a: number of operands, at least 2
    kRepeat,      // one operand, from a to b times
  };
  Kind kind = Kind::kConcat;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

struct GbnfRule {
  std::string_view name{};       // points into the source
  std::size_t offset = 0;        // the offset of the name in its definition, or in its first use
  std::vector<GbnfStep> body{};  // empty until the rule is defined
};

struct GbnfText {
  std::vector<GbnfRule> rules{};  // in the order in which the source names them; all are defined
  std::size_t root = 0;           // index of the rule `root`
  std::string literals{};
  std::vector<CodePointSet> classes{};
};

// Reads a grammar; `source` must outlive the result. Time and memory are linear in the source.
// Errors as ParseGbnf.
ConstraintResult<GbnfText> ReadGbnf(std::string_view source, const GbnfOptions& options);

// By index of the rule: true if some text, perhaps the empty one, matches the rule. Linear.
std::vector<bool> ProductiveRules(const GbnfText& text);

}  // namespace fathom::constraint
