#include "constraint/grammar/rule_facts.h"

#include <algorithm>
#include <limits>

namespace fathom::constraint {
namespace {

constexpr int kNoHeight = std::numeric_limits<int>::max() / 4;
constexpr std::size_t kExpressionsPerStep = 8;
// The memory while facts are found: the rules by body, and the facts of an expression.
constexpr std::size_t kBytesPerExpression = sizeof(std::vector<RuleId>) + 3 * sizeof(int);

bool IsCall(const ExpressionView& view) {
  return view.kind == ExpressionKind::kLetter && IsCall(view.letter);
}

// The rules by their bodies: operands have lower ids than the expressions that contain them, and a
// rule is known as soon as its body is.
std::vector<std::vector<RuleId>> RulesByBody(const Grammar& grammar) {
  std::vector<std::vector<RuleId>> by_body(grammar.pool.n_expressions());
  for (RuleId rule = 0; rule < grammar.rules.size(); ++rule) {
    by_body[grammar.rules[rule].body].push_back(rule);
  }
  return by_body;
}

void FindMatching(Grammar& grammar, std::vector<RuleProperties>& rules) {
  const std::vector<std::vector<RuleId>> by_body = RulesByBody(grammar);
  std::vector<char> matches(by_body.size(), 0);
  for (bool changed = true; changed && !grammar.meter.HasEnded();) {
    changed = false;
    grammar.meter.Spend(matches.size() / kExpressionsPerStep);
    for (ExpressionId id = 0; id < matches.size(); ++id) {
      if (matches[id] != 0) continue;
      const ExpressionView view = grammar.pool.View(id);
      const auto holds = [&](ExpressionId operand) { return matches[operand] != 0; };
      switch (view.kind) {
        case ExpressionKind::kNothing:
          break;
        case ExpressionKind::kEmpty:
        case ExpressionKind::kBytes:
        case ExpressionKind::kText:
        case ExpressionKind::kMultiple:
        case ExpressionKind::kAnd:
        case ExpressionKind::kNot:
          matches[id] = 1;
          break;
        case ExpressionKind::kLetter:
          matches[id] = !IsCall(view) || rules[view.letter.value].matches ? 1 : 0;
          break;
        case ExpressionKind::kConcat:
          matches[id] = std::ranges::all_of(view.operands, holds) ? 1 : 0;
          break;
        case ExpressionKind::kOr:
          matches[id] = std::ranges::any_of(view.operands, holds) ? 1 : 0;
          break;
        case ExpressionKind::kRepeat:
          matches[id] = view.minimum == 0 || holds(view.operands[0]) ? 1 : 0;
          break;
      }
      if (matches[id] == 0) continue;
      for (const RuleId rule : by_body[id]) {
        rules[rule].matches = true;
        changed = true;
      }
    }
  }
}

// Replaces calls of rules without texts by Nothing.
void RemoveUnmatched(Grammar& grammar, const std::vector<RuleProperties>& rules) {
  const bool has_unmatched =
      std::ranges::any_of(rules, [](const RuleProperties& rule) { return !rule.matches; });
  if (!has_unmatched) return;
  ExpressionPool& pool = grammar.pool;
  std::vector<ExpressionId> replaced(pool.n_expressions());
  std::vector<ExpressionId> operands;
  for (ExpressionId id = 0; id < replaced.size(); ++id) {
    const ExpressionView view = pool.View(id);
    operands.clear();
    for (const ExpressionId operand : view.operands) operands.push_back(replaced[operand]);
    const bool is_same = std::equal(operands.begin(), operands.end(), view.operands.begin());
    if (IsCall(view) && !rules[view.letter.value].matches) {
      replaced[id] = pool.Nothing();
    } else if (is_same) {
      replaced[id] = id;
    } else if (view.kind == ExpressionKind::kConcat) {
      replaced[id] = pool.Concat(operands);
    } else if (view.kind == ExpressionKind::kRepeat) {
      replaced[id] = pool.Repeat(operands[0], view.minimum, view.maximum);
    } else {
      replaced[id] = pool.Or(operands);
    }
  }
  for (Rule& rule : grammar.rules) {
    rule.body = replaced[rule.body];
    if (rule.later) rule.later->Replace(replaced);
  }
}

// The rules that each rule calls, each once.
std::vector<std::vector<RuleId>> FindCalls(Grammar& grammar) {
  std::vector<std::vector<RuleId>> calls(grammar.rules.size());
  constexpr RuleId kNobody = std::numeric_limits<RuleId>::max();
  std::vector<RuleId> visited(grammar.pool.n_expressions(), kNobody);
  std::vector<ExpressionId> open;
  for (RuleId rule = 0; rule < calls.size(); ++rule) {
    open.assign(1, grammar.rules[rule].body);
    while (!open.empty() && !grammar.meter.HasEnded()) {
      const ExpressionId id = open.back();
      open.pop_back();
      grammar.meter.Spend(1);
      if (visited[id] == rule || !grammar.pool.HasLetters(id)) continue;
      visited[id] = rule;
      const ExpressionView view = grammar.pool.View(id);
      if (IsCall(view)) calls[rule].push_back(view.letter.value);
      open.insert(open.end(), view.operands.begin(), view.operands.end());
    }
  }
  return calls;
}

// Tarjan's strongly connected components, with a stack of its own: rules may be deep.
class Components {
 public:
  Components(const std::vector<std::vector<RuleId>>& calls, std::vector<RuleProperties>& rules)
      : calls_(calls), rules_(rules), order_(calls.size(), 0), low_(calls.size(), 0) {
    for (RuleId rule = 0; rule < calls.size(); ++rule) {
      if (order_[rule] == 0) Visit(rule);
    }
  }

 private:
  struct Visited {
    RuleId rule = 0;
    std::size_t next = 0;  // index of the next call
  };

  void Visit(RuleId root) {
    path_.push_back({root});
    Open(root);
    while (!path_.empty()) {
      Visited& at = path_.back();
      if (at.next < calls_[at.rule].size()) {
        const RuleId called = calls_[at.rule][at.next++];
        if (called == at.rule) rules_[called].is_recursive = true;
        if (order_[called] == 0) {
          path_.push_back({called});
          Open(called);
        } else if (!closed_[called]) {
          low_[at.rule] = std::min(low_[at.rule], order_[called]);
        }
        continue;
      }
      const RuleId done = at.rule;
      path_.pop_back();
      if (!path_.empty()) {
        low_[path_.back().rule] = std::min(low_[path_.back().rule], low_[done]);
      }
      if (low_[done] == order_[done]) Close(done);
    }
  }

  void Open(RuleId rule) {
    if (closed_.empty()) closed_.resize(calls_.size(), false);
    order_[rule] = low_[rule] = ++n_opened_;
    open_.push_back(rule);
  }

  void Close(RuleId first) {
    const auto begin = std::find(open_.rbegin(), open_.rend(), first).base() - 1;
    const bool is_cycle = open_.end() - begin > 1;
    for (auto at = begin; at != open_.end(); ++at) {
      closed_[*at] = true;
      if (is_cycle) rules_[*at].is_recursive = true;
    }
    open_.erase(begin, open_.end());
  }

  const std::vector<std::vector<RuleId>>& calls_;
  std::vector<RuleProperties>& rules_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> low_;
  std::vector<bool> closed_;
  std::vector<RuleId> open_;
  std::vector<Visited> path_;
  std::uint32_t n_opened_ = 0;
};

// Heights fall until nothing changes; a rule's first value is already a height that it can have.
void FindHeights(Grammar& grammar, std::vector<RuleProperties>& rules) {
  const std::vector<std::vector<RuleId>> by_body = RulesByBody(grammar);
  std::vector<int> heights(by_body.size(), kNoHeight);
  for (RuleProperties& rule : rules) rule.height = kNoHeight;
  for (bool changed = true; changed && !grammar.meter.HasEnded();) {
    changed = false;
    grammar.meter.Spend(heights.size() / kExpressionsPerStep);
    for (ExpressionId id = 0; id < heights.size(); ++id) {
      const ExpressionView view = grammar.pool.View(id);
      int height = 0;
      if (IsCall(view)) {
        height = rules[view.letter.value].height;
      } else if (view.kind == ExpressionKind::kNothing) {
        height = kNoHeight;
      } else if (view.kind == ExpressionKind::kConcat) {
        for (const ExpressionId operand : view.operands)
          height = std::max(height, heights[operand]);
      } else if (view.kind == ExpressionKind::kOr) {
        height = kNoHeight;
        for (const ExpressionId operand : view.operands)
          height = std::min(height, heights[operand]);
      } else if (view.kind == ExpressionKind::kRepeat && view.minimum > 0) {
        height = heights[view.operands[0]];
      }
      if (height >= heights[id]) continue;
      heights[id] = height;
      for (const RuleId rule : by_body[id]) {
        const int with_rule = std::min(height + (rules[rule].is_recursive ? 1 : 0), kNoHeight);
        if (with_rule >= rules[rule].height) continue;
        rules[rule].height = with_rule;
        changed = true;
      }
    }
  }
}

}  // namespace

std::vector<RuleProperties> FindRuleProperties(Grammar& grammar) {
  const std::size_t n_bytes = grammar.pool.n_expressions() * kBytesPerExpression;
  grammar.meter.Keep(n_bytes);
  std::vector<RuleProperties> rules(grammar.rules.size());
  FindMatching(grammar, rules);
  RemoveUnmatched(grammar, rules);
  const std::vector<std::vector<RuleId>> calls = FindCalls(grammar);
  const Components components(calls, rules);
  FindHeights(grammar, rules);
  grammar.meter.Release(n_bytes);
  return rules;
}

}  // namespace fathom::constraint
