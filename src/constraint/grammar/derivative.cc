// Derivatives of expressions, memoised by class of bytes.
#include "constraint/grammar/expression.h"
#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr std::uint64_t kStepsPerSet = 8;     // for a set of bytes that refines the classes
constexpr std::uint32_t kDerivedPerStep = 2;  // operands whose derivatives are looked up

std::uint64_t DerivativeKey(ExpressionId id, std::uint32_t symbol) {
  return std::uint64_t{id} << 32 | symbol;
}

}  // namespace

void ExpressionPool::RefineClasses(const ByteSet& set) {
  const std::size_t n = representatives_.size();
  std::vector<int> in(n, -1);   // by class: the class of its bytes in the set
  std::vector<int> out(n, -1);  // by class: the class of its other bytes
  representatives_.clear();
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::uint8_t& of_byte = class_of_[byte];
    int& refined = (set.Has(static_cast<std::uint8_t>(byte)) ? in : out)[of_byte];
    if (refined < 0) {
      refined = static_cast<int>(representatives_.size());
      representatives_.push_back(static_cast<std::uint8_t>(byte));
    }
    of_byte = static_cast<std::uint8_t>(refined);
  }
  meter_.Spend(kStepsPerSet);
  if (representatives_.size() != n) derivatives_.Clear();
}

void ExpressionPool::MakeClasses() {
  if (has_classes_) return;
  has_classes_ = true;
  representatives_ = {0};
  for (const ByteSet& set : sets_) {
    if (representatives_.size() == 256) break;
    RefineClasses(set);
  }
}

ExpressionId ExpressionPool::KnownDerivative(Id id, std::uint32_t symbol) const {
  const Node& node = nodes_[id];
  const bool is_byte = symbol < kFirstLetterSymbol;
  if ((node.flags & (is_byte ? kFirstByte : kFirstLetter)) == 0) return kNothing;
  const Node& first = node.kind == Kind::kConcat ? nodes_[node.a] : node;
  bool taken = false;
  if (first.kind == Kind::kBytes) {
    taken = is_byte && sets_[first.a].Has(representatives_[symbol]);
  } else if (first.kind == Kind::kText) {
    taken = is_byte && static_cast<std::uint8_t>(text_bytes_[first.a]) == representatives_[symbol];
    if (taken) return derivatives_.Find(DerivativeKey(id, symbol));
  } else if (first.kind == Kind::kLetter) {
    taken = symbol == kFirstLetterSymbol + first.a;
  } else {
    return derivatives_.Find(DerivativeKey(id, symbol));
  }
  if (!taken) return kNothing;
  return node.kind == Kind::kConcat ? node.b : kEmpty;
}

ExpressionId ExpressionPool::CombineDerivatives(Id id, std::uint32_t symbol) {
  const Node node = nodes_[id];
  ++work_;
  meter_.Spend(1);
  switch (node.kind) {
    case Kind::kConcat: {
      const Id first = Concat(KnownDerivative(node.a, symbol), node.b);
      return Has(node.a, kNullable) ? Or(first, KnownDerivative(node.b, symbol)) : first;
    }
    case Kind::kOr:
    case Kind::kAnd: {
      work_ += node.b / 8;
      meter_.Spend(node.b / kDerivedPerStep);
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

ExpressionId ExpressionPool::DeriveByte(Id id, std::uint8_t byte) {
  MakeClasses();
  return Derive(id, class_of_[byte]);
}

ExpressionId ExpressionPool::DeriveLetter(Id id, Letter letter) {
  const auto found = letter_ids_.find(letter);
  return found == letter_ids_.end() ? kNothing : Derive(id, kFirstLetterSymbol + found->second);
}

ExpressionId ExpressionPool::Derive(Id id, std::uint32_t symbol) {
  std::vector<Id> stack;
  const auto need = [&](Id operand) {
    if (KnownDerivative(operand, symbol) == IdMap::kNone) stack.push_back(operand);
  };
  need(id);
  while (!stack.empty() && !meter_.HasEnded()) {
    const Id top = stack.back();
    if (KnownDerivative(top, symbol) != IdMap::kNone) {
      stack.pop_back();
      continue;
    }
    const std::size_t before = stack.size();
    const Node& node = nodes_[top];
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
    derivatives_.Set(DerivativeKey(top, symbol), CombineDerivatives(top, symbol));
    Keep(IdMap::kBytesPerEntry);
    stack.pop_back();
  }
  if (size() > limit_) exceeded_ = true;
  return meter_.HasEnded() ? kNothing : KnownDerivative(id, symbol);
}

std::vector<Letter> ExpressionPool::FirstLetters(Id id) const {
  std::vector<Letter> found;
  std::vector<Id> stack;
  IdMap seen;
  const auto visit = [&](Id operand) {
    if (!Has(operand, kFirstLetter) || seen.Find(operand) != IdMap::kNone) return;
    seen.Set(operand, 0);
    stack.push_back(operand);
  };
  visit(id);
  while (!stack.empty()) {
    const Node& node = nodes_[stack.back()];
    stack.pop_back();
    meter_.Spend(1);
    switch (node.kind) {
      case Kind::kLetter:
        found.push_back(letters_[node.a]);
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
  SortUnique(found);
  return found;
}

}  // namespace fathom::constraint
