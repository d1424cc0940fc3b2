// Derivatives of expressions, memoised by class of bytes.
#include <algorithm>

#include "constraint/grammar/expression_impl.h"

namespace fathom {
namespace {

constexpr std::uint64_t kStepsPerSet = 8;     // for a set of bytes that refines the classes
constexpr std::uint32_t kDerivedPerStep = 2;  // operands whose derivatives are looked up

std::uint64_t DerivativeKey(ExpressionId id, std::uint32_t symbol) {
  return std::uint64_t{id} << 32 | symbol;
}

}  // namespace

void ExpressionPool::Impl::RefineClasses(const ByteSet& set) {
  const std::size_t n = representatives.size();
  std::vector<int> in(n, -1);   // by class: the class of its bytes in the set
  std::vector<int> out(n, -1);  // by class: the class of its other bytes
  representatives.clear();
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::uint8_t& of_byte = class_of[byte];
    int& refined = (set.Has(static_cast<std::uint8_t>(byte)) ? in : out)[of_byte];
    if (refined < 0) {
      refined = static_cast<int>(representatives.size());
      representatives.push_back(static_cast<std::uint8_t>(byte));
    }
    of_byte = static_cast<std::uint8_t>(refined);
  }
  meter.Spend(kStepsPerSet);
  if (representatives.size() != n) derivatives.Clear();
}

void ExpressionPool::Impl::MakeClasses() {
  if (has_classes) return;
  has_classes = true;
  representatives = {0};
  for (const ByteSet& set : sets) {
    if (representatives.size() == 256) break;
    RefineClasses(set);
  }
}

ExpressionId ExpressionPool::Impl::KnownDerivative(Id id, std::uint32_t symbol) const {
  const ExpressionNode& node = nodes[id];
  const bool is_byte = symbol < kFirstLetterSymbol;
  if ((node.flags & (is_byte ? kFirstByte : kFirstLetter)) == 0) return kNothing;
  const ExpressionNode& first = node.kind == Kind::kConcat ? nodes[node.a] : node;
  bool taken = false;
  if (first.kind == Kind::kBytes) {
    taken = is_byte && sets[first.a].Has(representatives[symbol]);
  } else if (first.kind == Kind::kText) {
    taken = is_byte && static_cast<std::uint8_t>(text_bytes[first.a]) == representatives[symbol];
    if (taken) return derivatives.Find(DerivativeKey(id, symbol));
  } else if (first.kind == Kind::kLetter) {
    taken = symbol == kFirstLetterSymbol + first.a;
  } else {
    return derivatives.Find(DerivativeKey(id, symbol));
  }
  if (!taken) return kNothing;
  return node.kind == Kind::kConcat ? node.b : kEmpty;
}

ExpressionId ExpressionPool::Impl::CombineDerivatives(Id id, std::uint32_t symbol) {
  const ExpressionNode node = nodes[id];
  ++work;
  meter.Spend(1);
  switch (node.kind) {
    case Kind::kConcat: {
      const Id first = Concat(KnownDerivative(node.a, symbol), node.b);
      return Has(node.a, kNullable) ? Or(first, KnownDerivative(node.b, symbol)) : first;
    }
    case Kind::kOr:
    case Kind::kAnd: {
      work += node.b / 8;
      meter.Spend(node.b / kDerivedPerStep);
      std::vector<Id> derived;
      for (const Id operand : Operands(node)) {
        const Id id_of_operand = KnownDerivative(operand, symbol);
        if (id_of_operand != kNothing) {
          derived.push_back(id_of_operand);
        } else if (node.kind == Kind::kAnd) {
          return kNothing;
        }
      }
      if (derived.size() == 1) return derived[0];
      return node.kind == Kind::kOr ? Or(derived) : And(derived);
    }
    case Kind::kNot:
      return Not(KnownDerivative(node.a, symbol));
    case Kind::kRepeat: {
      const std::uint32_t maximum = node.c == kNoMaximum ? kNoMaximum : node.c - 1;
      const Id rest = Repeat(node.a, node.b == 0 ? 0 : node.b - 1, maximum);
      return Concat(KnownDerivative(node.a, symbol), rest);
    }
    case Kind::kText:
      return Literal(Text(node).substr(1));
    case Kind::kMultiple:
      return DeriveMultiple(node, symbol);
    default:
      return kNothing;
  }
}

ExpressionId ExpressionPool::Impl::Derive(Id id, std::uint32_t symbol) {
  std::vector<Id> stack;
  const auto need = [&](Id operand) {
    if (KnownDerivative(operand, symbol) == IdMap::kNone) stack.push_back(operand);
  };
  need(id);
  while (!stack.empty() && !meter.HasEnded()) {
    const Id top = stack.back();
    if (KnownDerivative(top, symbol) != IdMap::kNone) {
      stack.pop_back();
      continue;
    }
    const std::size_t before = stack.size();
    const ExpressionNode& node = nodes[top];
    switch (node.kind) {
      case Kind::kConcat:
        need(node.a);
        if (Has(node.a, kNullable)) need(node.b);
        break;
      case Kind::kOr:
      case Kind::kAnd:
        for (const Id operand : Operands(node)) need(operand);
        break;
      case Kind::kText:
      case Kind::kMultiple:
        break;
      default:
        need(node.a);
    }
    if (stack.size() != before) continue;
    derivatives.Set(DerivativeKey(top, symbol), CombineDerivatives(top, symbol));
    Keep(IdMap::kBytesPerEntry);
    stack.pop_back();
  }
  if (size() > limit) exceeded = true;
  return meter.HasEnded() ? kNothing : KnownDerivative(id, symbol);
}

void ExpressionPool::Impl::FirstLetters(Id id, std::vector<Letter>& found) const {
  const auto n_before = static_cast<std::ptrdiff_t>(found.size());
  std::vector<Id> stack;
  IdMap seen;
  const auto visit = [&](Id operand) {
    if (!Has(operand, kFirstLetter) || seen.Find(operand) != IdMap::kNone) return;
    seen.Set(operand, 0);
    stack.push_back(operand);
  };
  visit(id);
  while (!stack.empty()) {
    const ExpressionNode& node = nodes[stack.back()];
    stack.pop_back();
    meter.Spend(1);
    switch (node.kind) {
      case Kind::kLetter:
        found.push_back(letters[node.a]);
        break;
      case Kind::kConcat:
        visit(node.a);
        if (Has(node.a, kNullable)) visit(node.b);
        break;
      case Kind::kOr:
        for (const Id operand : Operands(node)) visit(operand);
        break;
      default:
        visit(node.a);
    }
  }
  std::sort(found.begin() + n_before, found.end());
  found.erase(std::unique(found.begin() + n_before, found.end()), found.end());
}

}  // namespace fathom
