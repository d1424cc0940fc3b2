// Grammar: rules over bytes and tokens, as the builders make it (json_schema, regex, gbnf, dsml)
// and as the matcher reads it.
//
// A rule has a body (expression.h), which may call rules. `start` is the body of the whole text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "constraint/expression.h"

namespace fathom {

// Bounds for the code points of a rule's text. The body is regular, its text is a sequence of code
// points in any spelling (escapes), every prefix of whole code points matches, and the matcher
// counts: a byte that is read where the body could end begins a code point.
struct CodePointCount {
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
};

struct Rule {
  std::string name;  // for messages
  ExpressionId body = 0;
  std::optional<CodePointCount> count{};
};

struct Grammar {
  ExpressionPool pool;
  std::vector<Rule> rules;
  std::vector<std::vector<std::uint32_t>> needs;  // sets of marks, by kNeed's value; each ascending
  ExpressionId start = 0;

  // Adds a rule whose body is set later (recursion).
  RuleId AddRule(std::string name) {
    rules.push_back({.name = std::move(name), .body = pool.Nothing()});
    return static_cast<RuleId>(rules.size() - 1);
  }
  ExpressionId Call(RuleId rule) { return pool.OneLetter({LetterKind::kCall, rule}); }
  ExpressionId UniqueCall(RuleId rule) { return pool.OneLetter({LetterKind::kUniqueCall, rule}); }
  ExpressionId AscendingCall(RuleId rule) {
    return pool.OneLetter({LetterKind::kAscendingCall, rule});
  }
  ExpressionId Mark(std::uint32_t mark) { return pool.OneLetter({LetterKind::kMark, mark}); }
  ExpressionId Need(std::vector<std::uint32_t> marks) {
    needs.push_back(std::move(marks));
    return pool.OneLetter({LetterKind::kNeed, static_cast<std::uint32_t>(needs.size() - 1)});
  }
  ExpressionId Token(fathom::Token token) {
    return pool.OneLetter({LetterKind::kToken, static_cast<std::uint32_t>(token)});
  }
};

}  // namespace fathom
