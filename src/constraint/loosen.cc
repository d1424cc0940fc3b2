// Larger languages of expressions, of which it is quickly known what may follow.
//
// Let every text of some plain characters lead from e to a place from which something matches. Then
// endlessly many texts match behind each of them, since the characters may go on; and without
// finitely many texts there still are some. So e without these takes the characters too. Behind e
// something else may stand, if it does not begin with plain characters itself.
#include <algorithm>

#include "constraint/expression_impl.h"
#include "constraint/text_kinds.h"

namespace fathom {

// True unless every text begins with a byte with which no plain character begins.
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

ExpressionId ExpressionPool::Impl::Loosen(Id id) {
  const ExpressionNode node = nodes[id];
  if (node.kind == Kind::kAnd) return LoosenAnd(node);
  if (node.kind != Kind::kConcat || nodes[node.a].kind != Kind::kAnd || BeginsPlainly(node.b)) {
    return id;
  }
  return Concat(LoosenAnd(nodes[node.a]), node.b);
}

}  // namespace fathom
