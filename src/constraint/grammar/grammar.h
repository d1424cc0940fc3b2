// Grammar: rules over bytes and tokens, as the builders make it (json_schema, regex, gbnf, dsml)
// and as the matcher reads it.
//
// A rule has a body (expression.h), which may call rules. `start` is the body of the whole text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "constraint/grammar/expression.h"
#include "constraint/work_meter.h"

namespace fathom::constraint {

// Bounds for the code points of a rule's text. The body is regular, its text is a sequence of code
// points in any spelling (escapes), every prefix of whole code points matches, and the matcher
// counts: a byte that is read where the body could end begins a code point.
struct CodePointCount {
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
};

struct Grammar;

// The body of a rule that is written when the rule is first entered.
class RuleBody {
 public:
  virtual ~RuleBody() = default;
  // Writes the body. It must not make new sets of bytes in the pool.
  virtual ExpressionId Write(Grammar& grammar) const = 0;
  // Replaces each expression e of the body by replaced[e].
  virtual void Replace(const std::vector<ExpressionId>& replaced) = 0;
};

struct Rule {
  std::string name;  // for messages
  // If `later` is set, a stand-in for the body: it calls the same rules, and its texts have as many
  // recursive rules open at once.
  ExpressionId body = 0;
  std::optional<CodePointCount> count{};
  std::shared_ptr<RuleBody> later{};
};

struct Grammar {
  WorkMeter meter;  // counts all work on the grammar, from its schema to masks
  ExpressionPool pool{&meter};
  std::vector<Rule> rules;
  std::vector<std::vector<std::uint32_t>> needs;  // sets of marks, by kNeed's value; each ascending
  ExpressionId start = 0;

  // The bytes that the meter counts for a rule, with the matcher's data about it.
  static constexpr std::size_t kBytesPerRule = 2 * sizeof(Rule) + 64;

  // Adds a rule whose body is set later (recursion).
  RuleId AddRule(std::string name) {
    meter.Keep(kBytesPerRule);
    rules.push_back({.name = std::move(name), .body = pool.Nothing()});
    return static_cast<RuleId>(rules.size() - 1);
  }
  // The body of the rule, which is written now if it is not written yet. Writing does not count
  // against the limit of the pool.
  ExpressionId Body(RuleId rule) {
    if (rules[rule].later) {
      const std::size_t before = pool.size();
      const std::shared_ptr<RuleBody> later = std::move(rules[rule].later);
      rules[rule].body = later->Write(*this);
      pool.RaiseLimit(pool.size() - before);
    }
    return rules[rule].body;
  }
  ExpressionId Call(RuleId rule) { return pool.OneLetter({LetterKind::kCall, rule}); }
  ExpressionId UniqueCall(RuleId rule) { return pool.OneLetter({LetterKind::kUniqueCall, rule}); }
  ExpressionId AscendingCall(RuleId rule) {
    return pool.OneLetter({LetterKind::kAscendingCall, rule});
  }
  ExpressionId Mark(std::uint32_t mark) { return pool.OneLetter({LetterKind::kMark, mark}); }
  ExpressionId Need(std::vector<std::uint32_t> marks) {
    meter.Keep(2 * (sizeof(marks) + marks.size() * sizeof(std::uint32_t)));
    needs.push_back(std::move(marks));
    return pool.OneLetter({LetterKind::kNeed, static_cast<std::uint32_t>(needs.size() - 1)});
  }
  ExpressionId Token(fathom::Token token) {
    return pool.OneLetter({LetterKind::kToken, static_cast<std::uint32_t>(token)});
  }
};

}  // namespace fathom::constraint
