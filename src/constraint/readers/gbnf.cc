#include "constraint/readers/gbnf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "constraint/readers/gbnf_cursor.h"
#include "constraint/readers/gbnf_text.h"
#include "constraint/readers/regex.h"

namespace fathom::constraint {
namespace {

using Kind = GbnfStep::Kind;

// A rule that does not call itself is inlined in the bodies that use it, where it becomes part of
// their automata, unless it is larger than this, or all inlined rules together are: a body that is
// in many places makes all of them larger.
constexpr std::size_t kMaxInlinedSize = 4096;
constexpr int kMaxInlinedHeight = 256;
constexpr std::size_t kMaxInlinedTotal = 100'000;

// Builds the rules that `root` reaches, without recursion over the source's structure.
class GbnfBuilder {
 public:
  GbnfBuilder(Grammar& grammar, const GbnfText& text)
      : grammar_(grammar),
        text_(text),
        productive_(ProductiveRules(text)),
        is_recursive_(text.rules.size(), false),
        built_(text.rules.size()),
        rule_ids_(text.rules.size()) {}

  bool HasText() const { return productive_[text_.root]; }

  void Build() {
    OrderRules();
    for (const std::uint32_t rule : order_) {
      if (is_recursive_[rule]) rule_ids_[rule] = grammar_.AddRule(Name(rule));
    }
    for (const std::uint32_t rule : order_) BuildRule(rule);
    grammar_.start = rule_ids_[text_.root] ? grammar_.Call(*rule_ids_[text_.root])
                                           : built_[text_.root].expression;
  }

 private:
  // An expression, with bounds for what its derivatives may cost.
  struct Value {
    ExpressionId expression = 0;
    std::size_t size = 1;  // symbols; an inlined rule counts at each use
    int height = 0;        // nested operators
  };

  std::string Name(std::uint32_t rule) const { return std::string(text_.rules[rule].name); }

  // Walks the uses of rules depth first. order_ gets each rule after the rules that it uses, except
  // for the uses that lead back to a rule whose walk is under way: these rules are recursive, and
  // every recursion goes through one of them.
  void OrderRules() {
    struct Visit {
      std::uint32_t rule;
      std::size_t n_steps;  // steps that the walk has passed
    };
    enum class State : std::uint8_t { kNew, kOpen, kDone };
    std::vector<State> states(text_.rules.size(), State::kNew);
    std::vector<Visit> open = {{static_cast<std::uint32_t>(text_.root), 0}};
    states[text_.root] = State::kOpen;
    while (!open.empty()) {
      Visit& visit = open.back();
      const std::vector<GbnfStep>& body = text_.rules[visit.rule].body;
      while (visit.n_steps < body.size() && !IsUse(body[visit.n_steps])) ++visit.n_steps;
      if (visit.n_steps == body.size()) {
        states[visit.rule] = State::kDone;
        order_.push_back(visit.rule);
        open.pop_back();
        continue;
      }
      const std::uint32_t used = body[visit.n_steps++].a;
      if (states[used] == State::kOpen) is_recursive_[used] = true;
      if (states[used] != State::kNew) continue;
      states[used] = State::kOpen;
      open.push_back({used, 0});
    }
  }

  bool IsUse(const GbnfStep& step) const { return step.kind == Kind::kRule && productive_[step.a]; }

  void BuildRule(std::uint32_t rule) {
    std::vector<Value> stack;
    for (const GbnfStep& step : text_.rules[rule].body) Run(step, stack);
    const Value value = stack.back();
    const bool is_large = value.size > kMaxInlinedSize || value.height > kMaxInlinedHeight;
    built_[rule] = value;
    if (is_large && rule != text_.root && !rule_ids_[rule]) {
      rule_ids_[rule] = grammar_.AddRule(Name(rule));
    }
    if (rule_ids_[rule]) grammar_.rules[*rule_ids_[rule]].body = value.expression;
  }

  void Run(const GbnfStep& step, std::vector<Value>& stack) {
    ExpressionPool& pool = grammar_.pool;
    switch (step.kind) {
      case Kind::kLiteral:
        return stack.push_back(
            {pool.Literal(std::string_view(text_.literals).substr(step.a, step.b)), step.b});
      case Kind::kClass:
        return stack.push_back({Class(step.a)});
      case Kind::kToken:
        return stack.push_back({pool.OneLetter({LetterKind::kToken, step.a})});
      case Kind::kOtherToken:
        return stack.push_back({pool.OneLetter({LetterKind::kOtherToken, step.a})});
      case Kind::kRule:
        return stack.push_back(Use(step.a));
      case Kind::kRepeat: {
        Value& value = stack.back();
        value.expression = pool.Repeat(value.expression, step.a, step.b);
        ++value.height;
        return;
      }
      case Kind::kConcat:
      case Kind::kOr:
        return Join(step, stack);
    }
  }

  ExpressionId Class(std::uint32_t index) {
    classes_.resize(text_.classes.size());
    if (!classes_[index]) classes_[index] = Utf8(grammar_.pool, text_.classes[index]);
    return *classes_[index];
  }

  Value Use(std::uint32_t rule) {
    if (!productive_[rule]) return {grammar_.pool.Nothing()};
    if (!rule_ids_[rule]) {
      inlined_ += built_[rule].size;
      if (inlined_ <= kMaxInlinedTotal) return built_[rule];
      rule_ids_[rule] = grammar_.AddRule(Name(rule));
      grammar_.rules[*rule_ids_[rule]].body = built_[rule].expression;
    }
    return {grammar_.Call(*rule_ids_[rule])};
  }

  void Join(const GbnfStep& step, std::vector<Value>& stack) {
    const std::span<const Value> operands = std::span(stack).last(step.a);
    Value joined{.size = 0};
    std::vector<ExpressionId> ids;
    for (const Value& operand : operands) {
      ids.push_back(operand.expression);
      joined.size += operand.size;
      joined.height = std::max(joined.height, operand.height + 1);
    }
    joined.expression = step.kind == Kind::kOr ? grammar_.pool.Or(ids) : grammar_.pool.Concat(ids);
    stack.resize(stack.size() - step.a);
    stack.push_back(joined);
  }

  Grammar& grammar_;
  const GbnfText& text_;
  const std::vector<bool> productive_;
  std::vector<bool> is_recursive_;
  std::vector<std::uint32_t> order_;
  std::vector<Value> built_;                     // by rule, once it is built
  std::vector<std::optional<RuleId>> rule_ids_;  // by rule, if the rule is called
  std::vector<std::optional<ExpressionId>> classes_;
  std::size_t inlined_ = 0;  // symbols of inlined rules, over all their uses
};

}  // namespace

ConstraintResult<void> ParseGbnf(Grammar& grammar, std::string_view text,
                                 const GbnfOptions& options) {
  const ConstraintResult<GbnfText> rules = ReadGbnf(text, options);
  if (!rules) return tl::unexpected<ConstraintError>(rules.error());
  GbnfBuilder builder(grammar, *rules);
  if (!builder.HasText()) {
    return GbnfError(ConstraintErrorCode::kInvalidGrammar,
                     {GbnfIssue(text, rules->rules[rules->root].offset,
                                "expected a rule root that some text matches, found one whose "
                                "alternatives all need themselves or match nothing")});
  }
  builder.Build();
  return {};
}

}  // namespace fathom::constraint
