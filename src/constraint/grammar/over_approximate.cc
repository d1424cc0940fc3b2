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
#include "constraint/grammar/expression_impl.h"

namespace fathom {

// False only if every text begins with a byte with which no plain character begins.
bool ExpressionPool::Impl::BeginsPlainly(Id id) const {
  const ExpressionNode& node = nodes[id];
  const ExpressionNode& first = node.kind == Kind::kConcat ? nodes[node.a] : node;
  if (first.kind == Kind::kText) {
    return KindBit(static_cast<std::uint8_t>(text_bytes[first.a])) != kNotPlain;
  }
  if (first.kind != Kind::kBytes) return true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto of = static_cast<std::uint8_t>(byte);
    if (KindBit(of) != kNotPlain && sets[first.a].Has(of)) return true;
  }
  return false;
}

ExpressionId ExpressionPool::Impl::LoosenAnd(const ExpressionNode& node) {
  std::vector<Id> kept;
  const std::vector<Id> all(Operands(node).begin(), Operands(node).end());
  for (const Id operand : all) {
    if (nodes[operand].kind != Kind::kNot) {
      kept.push_back(operand);
      continue;
    }
    const Id negated = nodes[operand].a;
    if (!Has(negated, kMayBeEndless)) continue;
    if (nodes[negated].kind != Kind::kOr) {
      kept.push_back(operand);
      continue;
    }
    std::vector<Id> endless;
    for (const Id choice : Operands(nodes[negated])) {
      if (Has(choice, kMayBeEndless)) endless.push_back(choice);
    }
    kept.push_back(Not(Or(endless)));
  }
  return And(kept);
}

ExpressionId ExpressionPool::Impl::OverApproximate(Id id) {
  const ExpressionNode node = nodes[id];
  if (node.kind == Kind::kAnd) return LoosenAnd(node);
  if (node.kind != Kind::kConcat || nodes[node.a].kind != Kind::kAnd || BeginsPlainly(node.b)) {
    return id;
  }
  return Concat(LoosenAnd(nodes[node.a]), node.b);
}

}  // namespace fathom
