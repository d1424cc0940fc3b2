// Prune and IsDead: find whether a text matches an expression with And and Not, by a search of its
// derivatives.
#include <queue>
#include <utility>
#include <vector>

#include "constraint/grammar/expression.h"

namespace fathom::constraint {
namespace {

// Bounds of one search.
constexpr std::size_t kMaxVisited = 50'000;
constexpr std::uint64_t kMaxSearchWork = 1'000'000;

// An expression of the search. Its derivatives by the classes before `next_class` were visited.
struct EmptinessVisit {
  std::uint32_t min_length = 0;
  std::uint32_t order = 0;
  ExpressionId id = 0;
  std::uint32_t next_class = 0;
  // The top of the queue may have the shortest text; of several such expressions it is the latest.
  friend bool operator<(const EmptinessVisit& a, const EmptinessVisit& b) {
    return std::pair(a.min_length, b.order) > std::pair(b.min_length, a.order);
  }
};

}  // namespace

bool ExpressionPool::IsDead(Id id) {
  const auto is_alive = [&](Id of) {
    const Node& node = nodes_[of];
    return (node.flags & kNullable) != 0 || node.life == Life::kAlive ||
           ((node.flags & kHasBooleans) == 0 && of != kNothing);
  };
  if (is_alive(id)) return false;
  if (id == kNothing || nodes_[id].life == Life::kDead) return true;
  IdMap parents;  // the parents of the visited expressions
  std::vector<Id> visited;
  std::priority_queue<EmptinessVisit> queue;
  std::uint32_t order = 0;
  const std::uint64_t work_before = work_;
  const auto visit = [&](Id of, Id parent) {
    parents.Set(of, parent);
    visited.push_back(of);
    queue.push({nodes_[of].min_length, order++, of, 0});
  };
  visit(id, id);
  while (!queue.empty()) {
    if (meter_.HasEnded()) return false;
    EmptinessVisit top = queue.top();
    queue.pop();
    for (std::uint32_t symbol = top.next_class; symbol < representatives_.size(); ++symbol) {
      meter_.Spend(1);
      const Id derived = Derive(top.id, symbol);
      if (meter_.HasEnded()) return false;
      if (derived == kNothing || nodes_[derived].life == Life::kDead) continue;
      if (is_alive(derived)) {
        Id alive = top.id;
        for (; alive != id; alive = parents.Find(alive)) {
          nodes_[alive].life = Life::kAlive;
        }
        nodes_[id].life = Life::kAlive;
        return false;
      }
      if (parents.Find(derived) != IdMap::kNone) continue;
      if (exceeded_ || visited.size() == kMaxVisited || work_ - work_before > kMaxSearchWork) {
        exceeded_ = true;
        return false;
      }
      visit(derived, top.id);
      // Follows a derivative with shorter texts immediately: most often this finds a text without
      // another look at `top`.
      if (nodes_[derived].min_length < top.min_length) {
        top.next_class = symbol + 1;
        queue.push(top);
        break;
      }
    }
  }
  for (const Id dead : visited) nodes_[dead].life = Life::kDead;
  return true;
}

ExpressionId ExpressionPool::PruneKnown(Id id) const {
  return Has(id, kHasBooleans) ? pruned_.Find(id) : id;
}

ExpressionId ExpressionPool::PruneNode(Id id) {
  const Node node = nodes_[id];
  switch (node.kind) {
    case Kind::kConcat:
      return Concat(PruneKnown(node.a), PruneKnown(node.b));
    case Kind::kOr: {
      std::vector<Id> kept;
      bool changed = false;
      for (const Id operand : Operands(node)) {
        kept.push_back(PruneKnown(operand));
        changed |= kept.back() != operand;
      }
      return changed ? Or(kept) : id;
    }
    case Kind::kRepeat:
      return Repeat(PruneKnown(node.a), node.b, node.c);
    default:
      return IsDead(id) ? kNothing : id;
  }
}

ExpressionId ExpressionPool::Prune(Id id) {
  MakeClasses();
  std::vector<Id> stack;
  const auto need = [&](Id operand) {
    if (PruneKnown(operand) == IdMap::kNone) stack.push_back(operand);
  };
  need(id);
  while (!stack.empty() && !meter_.HasEnded()) {
    const Id top = stack.back();
    if (PruneKnown(top) != IdMap::kNone) {
      stack.pop_back();
      continue;
    }
    const std::size_t before = stack.size();
    const Node& node = nodes_[top];
    switch (node.kind) {
      case Kind::kConcat:
        need(node.a);
        need(node.b);
        break;
      case Kind::kOr:
        for (const Id operand : Operands(node)) need(operand);
        break;
      case Kind::kRepeat:
        need(node.a);
        break;
      default:
        break;
    }
    if (stack.size() != before) continue;
    pruned_.Set(top, PruneNode(top));
    Keep(IdMap::kBytesPerEntry);
    stack.pop_back();
  }
  return meter_.HasEnded() ? kNothing : PruneKnown(id);
}

}  // namespace fathom::constraint
