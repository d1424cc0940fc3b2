// OverApproximate: a larger language of an expression, in which it is faster to find what may
// follow.
//
// Let e = L \ F (an And with a Not of F), where F has finitely many texts; then OverApproximate(e)
// = L. Let P be a set of plain characters (character_classes.h), P* all texts of them, and let
// every u in P* begin a text of L.
//
// Lemma: every u in P* begins a text of L \ F, too.
//
// Proof: let c be in P. For each n the text u c^n is in P*, so it begins a text of L. Hence
// infinitely many texts of L begin with u, and F has only finitely many of them.
//
// The lemma also holds for e R = (L \ F) R and L R, if no text of R begins with a plain character:
// a text u in P* that begins a text of L R then begins a text of L.

#include "constraint/grammar/character_classes.h"
#include "constraint/grammar/expression.h"

namespace fathom::constraint {

// False only if every text begins with a byte with which no plain character begins.
bool ExpressionPool::BeginsPlainly(Id id) const {
  const Node& node = nodes_[id];
  const Node& first = node.kind == Kind::kConcat ? nodes_[node.a] : node;
  if (first.kind == Kind::kText) {
    return KindBit(static_cast<std::uint8_t>(text_bytes_[first.a])) != kNotPlain;
  }
  if (first.kind != Kind::kBytes) return true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto of = static_cast<std::uint8_t>(byte);
    if (KindBit(of) != kNotPlain && sets_[first.a].Has(of)) return true;
  }
  return false;
}

ExpressionId ExpressionPool::LoosenAnd(const Node& node) {
  std::vector<Id> kept;
  const std::vector<Id> all(Operands(node).begin(), Operands(node).end());
  for (const Id operand : all) {
    if (nodes_[operand].kind != Kind::kNot) {
      kept.push_back(operand);
      continue;
    }
    const Id negated = nodes_[operand].a;
    if (!Has(negated, kMayBeEndless)) continue;
    if (nodes_[negated].kind != Kind::kOr) {
      kept.push_back(operand);
      continue;
    }
    std::vector<Id> endless;
    for (const Id choice : Operands(nodes_[negated])) {
      if (Has(choice, kMayBeEndless)) endless.push_back(choice);
    }
    kept.push_back(Not(Or(endless)));
  }
  return And(kept);
}

ExpressionId ExpressionPool::OverApproximate(Id id) {
  const Node node = nodes_[id];
  if (node.kind == Kind::kAnd) return LoosenAnd(node);
  if (node.kind != Kind::kConcat || nodes_[node.a].kind != Kind::kAnd || BeginsPlainly(node.b)) {
    return id;
  }
  return Concat(LoosenAnd(nodes_[node.a]), node.b);
}

}  // namespace fathom::constraint
