// ProductiveRules: finds the rules of a GBNF grammar that have a text at all.
#include <cstdint>
#include <limits>

#include "constraint/readers/gbnf_text.h"

namespace fathom::constraint {
namespace {

using Kind = GbnfStep::Kind;

// The steps of all rules as a graph: a step waits for a number of its operands to have a text. Once
// it has a text, it notifies the step above it, or all uses of its rule.
class ProductiveSearch {
 public:
  explicit ProductiveSearch(const GbnfText& text) : text_(text), uses_(text.rules.size()) {
    for (std::uint32_t rule = 0; rule < text.rules.size(); ++rule) AddRule(rule);
  }

  std::vector<bool> Run() {
    std::vector<bool> productive(text_.rules.size(), false);
    while (!ready_.empty()) {
      const Node node = nodes_[ready_.back()];
      ready_.pop_back();
      if (node.parent != kNone) {
        Tell(node.parent);
      } else {
        productive[node.rule] = true;
        for (const std::uint32_t use : uses_[node.rule]) Tell(use);
      }
    }
    return productive;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    std::uint32_t parent = kNone;  // kNone: the whole body of the rule
    std::uint32_t rule = 0;
    std::uint32_t n_missing = 0;  // operands without a text that must have one
  };

  void AddRule(std::uint32_t rule) {
    std::vector<std::uint32_t> stack;
    for (const GbnfStep& step : text_.rules[rule].body) {
      const auto id = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.rule = rule, .n_missing = Missing(step)});
      if (step.kind == Kind::kRule) uses_[step.a].push_back(id);
      for (std::uint32_t i = 0; i < Operands(step); ++i) {
        nodes_[stack.back()].parent = id;
        stack.pop_back();
      }
      stack.push_back(id);
      if (nodes_[id].n_missing == 0) ready_.push_back(id);
    }
  }

  static std::uint32_t Operands(const GbnfStep& step) {
    switch (step.kind) {
      case Kind::kConcat:
      case Kind::kOr:
        return step.a;
      case Kind::kRepeat:
        return 1;
      default:
        return 0;
    }
  }

  std::uint32_t Missing(const GbnfStep& step) const {
    switch (step.kind) {
      case Kind::kConcat:
        return step.a;
      case Kind::kOr:
      case Kind::kRule:
        return 1;
      case Kind::kRepeat:
        return step.a > 0 ? 1 : 0;
      case Kind::kClass:
        return text_.classes[step.a].empty() ? 1 : 0;
      default:
        return 0;
    }
  }

  // Notes that one more operand has a text. Each operand is noted once, so the last missing one is
  // seen once.
  void Tell(std::uint32_t id) {
    if (nodes_[id].n_missing > 0 && --nodes_[id].n_missing == 0) ready_.push_back(id);
  }

  const GbnfText& text_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::uint32_t>> uses_;  // by rule: the steps that name it
  std::vector<std::uint32_t> ready_;  // steps that have a text and have not notified others
};

}  // namespace

std::vector<bool> ProductiveRules(const GbnfText& text) { return ProductiveSearch(text).Run(); }

}  // namespace fathom::constraint
