#include "constraint/grammar/expression.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr std::uint32_t kMaxLength = 0xFFFFFFFF;

std::uint64_t MixHash(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

std::uint32_t SaturatedSum(std::uint32_t a, std::uint32_t b) {
  return a > kMaxLength - b ? kMaxLength : a + b;
}
std::uint32_t SaturatedProduct(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return product > kMaxLength ? kMaxLength : static_cast<std::uint32_t>(product);
}

std::uint8_t FlagIf(bool holds, int flags) { return static_cast<std::uint8_t>(holds ? flags : 0); }

bool HasOperands(ExpressionKind kind) {
  return kind == ExpressionKind::kOr || kind == ExpressionKind::kAnd;
}

}  // namespace

// --- Nodes ---

ExpressionPool::ExpressionPool(WorkMeter* counts)
    : own_meter_(counts == nullptr ? std::make_unique<WorkMeter>() : nullptr),
      meter_(counts == nullptr ? *own_meter_ : *counts) {
  Intern({.kind = Kind::kNothing, .within = 0xFF, .min_length = kMaxLength});
  Intern({.kind = Kind::kEmpty, .flags = kNullable, .within = 0xFF});
  any_ = Repeat(Bytes(ByteSet::All()), 0, kNoMaximum);
  SetLimit(1 << 22);
}

std::uint32_t ExpressionPool::HashNode(const Node& node, std::span<const Id> list) {
  std::uint64_t hash = MixHash(0x13198A2E03707344ULL, static_cast<std::uint64_t>(node.kind));
  if (HasOperands(node.kind)) {
    for (const Id id : list) hash = MixHash(hash, id);
  } else {
    hash = MixHash(hash, std::uint64_t{node.a} << 32 | node.b);
    hash = MixHash(hash, node.c);
  }
  return static_cast<std::uint32_t>(hash);
}

bool ExpressionPool::Equal(const Node& a, const Node& b, std::span<const Id> list) const {
  if (a.kind != b.kind) return false;
  if (HasOperands(a.kind)) return std::ranges::equal(Operands(a), list);
  return a.a == b.a && a.b == b.b && a.c == b.c;
}

void ExpressionPool::GrowTable() {
  std::vector<Slot> old(std::max<std::size_t>(1024, 2 * table_.size()));
  old.swap(table_);
  const std::size_t mask = table_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.next_id == 0) continue;
    std::size_t at = slot.hash & mask;
    while (table_[at].next_id != 0) at = (at + 1) & mask;
    table_[at] = slot;
  }
}

ExpressionId ExpressionPool::Intern(Node node, std::span<const Id> list) {
  meter_.Spend(1 + list.size() / kOperandsPerStep);
  if (2 * (nodes_.size() + 1) > table_.size()) GrowTable();
  const std::size_t mask = table_.size() - 1;
  const std::uint32_t hash = HashNode(node, list);
  std::size_t at = hash & mask;
  for (; table_[at].next_id != 0; at = (at + 1) & mask) {
    const Id id = table_[at].next_id - 1;
    if (table_[at].hash == hash && Equal(nodes_[id], node, list)) {
      nodes_[id].within |= node.within;
      return id;
    }
  }
  if (HasOperands(node.kind)) {
    node.a = static_cast<std::uint32_t>(operands_.size());
    node.b = static_cast<std::uint32_t>(list.size());
    operands_.insert(operands_.end(), list.begin(), list.end());
  }
  Keep(kBytesPerNode + list.size() * kBytesPerOperand);
  nodes_.push_back(node);
  table_[at] = {.hash = hash, .next_id = static_cast<Id>(nodes_.size())};
  return static_cast<Id>(nodes_.size() - 1);
}

ExpressionId ExpressionPool::Bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  const auto [entry, is_new] = set_ids_.try_emplace(set, static_cast<std::uint32_t>(sets_.size()));
  if (is_new) {
    sets_.push_back(set);
    if (has_classes_) RefineClasses(set);
  }
  return Intern({.kind = Kind::kBytes, .flags = kFirstByte, .a = entry->second, .min_length = 1});
}

ExpressionId ExpressionPool::Byte(std::uint8_t byte) {
  if (byte_ids_[byte] == kNothing) byte_ids_[byte] = Bytes(ByteSet::Of(byte));
  return byte_ids_[byte];
}

ExpressionId ExpressionPool::Literal(std::string_view text) {
  if (text.empty()) return kEmpty;
  if (text.size() == 1) return Byte(static_cast<std::uint8_t>(text[0]));
  if (text.size() <= kMaxText) return InternText(text);
  Id rest = kEmpty;
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t begin = (end - 1) / kMaxText * kMaxText;
    rest = Concat(Literal(text.substr(begin, end - begin)), rest);
    end = begin;
  }
  return rest;
}

ExpressionId ExpressionPool::InternText(std::string_view text) {
  meter_.Spend(1 + text.size() / kOperandsPerStep);
  if (2 * (nodes_.size() + 257) > table_.size()) GrowTable();
  std::uint64_t hash = MixHash(0xA4093822299F31D0ULL, text.size());
  std::uint8_t within = 0xFF;
  for (const char c : text) {
    const Id byte = Byte(static_cast<std::uint8_t>(c));
    within &= nodes_[byte].within;
    hash = MixHash(hash, byte);
  }
  const std::size_t mask = table_.size() - 1;
  const auto short_hash = static_cast<std::uint32_t>(hash);
  std::size_t at = short_hash & mask;
  for (; table_[at].next_id != 0; at = (at + 1) & mask) {
    const Node& node = nodes_[table_[at].next_id - 1];
    if (table_[at].hash == short_hash && node.kind == Kind::kText && Text(node) == text) {
      return table_[at].next_id - 1;
    }
  }
  const char* const begin = text_bytes_.data();
  const bool is_inside = text.data() >= begin && text.data() < begin + text_bytes_.size();
  const auto offset = static_cast<std::uint32_t>(
      is_inside ? static_cast<std::size_t>(text.data() - begin) : text_bytes_.size());
  if (!is_inside) text_bytes_ += text;
  Keep(kBytesPerNode + (is_inside ? 0 : 2 * text.size()));
  const auto length = static_cast<std::uint32_t>(text.size());
  nodes_.push_back({.kind = Kind::kText,
                    .flags = kFirstByte,
                    .within = within,
                    .a = offset,
                    .b = length,
                    .min_length = length});
  table_[at] = {.hash = short_hash, .next_id = static_cast<Id>(nodes_.size())};
  return static_cast<Id>(nodes_.size() - 1);
}

ExpressionId ExpressionPool::OneLetter(Letter letter) {
  const auto [entry, is_new] =
      letter_ids_.try_emplace(letter, static_cast<std::uint32_t>(letters_.size()));
  if (is_new) letters_.push_back(letter);
  return Intern({.kind = Kind::kLetter,
                 .flags = kHasLetters | kFirstLetter,
                 .a = entry->second,
                 .min_length = 1});
}

ExpressionId ExpressionPool::Concat(Id first, Id second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  if (nodes_[first].kind != Kind::kConcat) return ConcatOne(first, second);
  // The parts of `first`, a few at a time, so that most lists need no memory.
  constexpr std::size_t kFewParts = 24;
  std::array<Id, kFewParts> few;
  std::vector<Id> many;
  std::size_t n = 0;
  for (;; first = nodes_[first].b) {
    const bool is_concat = nodes_[first].kind == Kind::kConcat;
    const Id part = is_concat ? nodes_[first].a : first;
    if (n < kFewParts) {
      few[n] = part;
    } else {
      many.push_back(part);
    }
    ++n;
    if (!is_concat) break;
  }
  Id rest = second;
  for (std::size_t i = n; i-- > 0;) {
    rest = ConcatOne(i < kFewParts ? few[i] : many[i - kFewParts], rest);
  }
  return rest;
}

ExpressionId ExpressionPool::Concat(std::span<const Id> parts) {
  Id rest = kEmpty;
  for (std::size_t i = parts.size(); i-- > 0;) rest = Concat(parts[i], rest);
  return rest;
}

ExpressionId ExpressionPool::ConcatOne(Id part, Id rest) {
  // x{a,b} x{c,d} is x{a+c,b+d}.
  const Node& p = nodes_[part];
  if (p.kind == Kind::kRepeat) {
    const Id next = nodes_[rest].kind == Kind::kConcat ? nodes_[rest].a : rest;
    const Node& n = nodes_[next];
    if (n.kind == Kind::kRepeat && p.a == n.a) {
      const Id after = next == rest ? kEmpty : nodes_[rest].b;
      part = Repeat(p.a, SaturatedSum(p.b, n.b), SaturatedSum(p.c, n.c));
      rest = after;
      if (rest == kEmpty) return part;
    }
  }
  const Node& a = nodes_[part];
  const Node& b = nodes_[rest];
  const bool nullable = (a.flags & kNullable) != 0;
  const auto flags = static_cast<std::uint8_t>(
      (a.flags & b.flags & kNullable) |
      ((a.flags | b.flags) & (kHasLetters | kHasBooleans | kMayBeEndless)) |
      (a.flags & (kFirstByte | kFirstLetter)) |
      FlagIf(nullable, b.flags & (kFirstByte | kFirstLetter)));
  return Intern({.kind = Kind::kConcat,
                 .flags = flags,
                 .within = static_cast<std::uint8_t>(a.within & b.within),
                 .a = part,
                 .b = rest,
                 .min_length = SaturatedSum(a.min_length, b.min_length)});
}

ExpressionId ExpressionPool::Repeat(Id operand, std::uint32_t minimum, std::uint32_t maximum) {
  Check(minimum <= maximum, "expected a repetition's minimum to be at most its maximum");
  if (maximum == 0 || operand == kEmpty) return kEmpty;
  if (operand == kNothing) return minimum == 0 ? kEmpty : kNothing;
  if (minimum == 1 && maximum == 1) return operand;
  if (Has(operand, kNullable)) minimum = 0;
  if (minimum == 0 && maximum == 1) return Or(kEmpty, operand);
  const Node& node = nodes_[operand];
  if (node.kind == Kind::kOr) {
    // (|x)* is x*, and (x*|y)* is (x|y)*.
    std::vector<Id> kept;
    bool changed = false;
    for (const Id id : Operands(node)) {
      const Node& o = nodes_[id];
      const bool unwrap = maximum == kNoMaximum && o.kind == Kind::kRepeat && o.b <= 1;
      const bool drop = id == kEmpty;
      if (!drop) kept.push_back(unwrap ? o.a : id);
      changed |= unwrap || drop;
    }
    if (changed) return Repeat(Or(kept), minimum, maximum);
  }
  if (node.kind == Kind::kRepeat) {
    // x{a,b}{c,d}: the ranges [ka, kb] of k = c ... d have no gaps if the first two have none.
    const auto [a, b] = std::pair(node.b, node.c);
    const bool gapless = minimum == maximum || b == kNoMaximum ||
                         std::uint64_t{minimum} * b + 1 >= (std::uint64_t{minimum} + 1) * a;
    if (gapless && (minimum > 0 || a <= 1)) {
      return Repeat(node.a, std::min(SaturatedProduct(a, minimum), kNoMaximum - 1),
                    SaturatedProduct(b, maximum));
    }
  }
  const auto flags =
      static_cast<std::uint8_t>((node.flags & ~kNullable) | FlagIf(minimum == 0, kNullable) |
                                FlagIf(maximum == kNoMaximum, kMayBeEndless));
  return Intern({.kind = Kind::kRepeat,
                 .flags = flags,
                 .within = node.within,
                 .a = operand,
                 .b = minimum,
                 .c = maximum,
                 .min_length = SaturatedProduct(node.min_length, minimum)});
}

std::uint8_t ExpressionPool::UniverseBit(Id id) const {
  const Node& node = nodes_[id];
  if (node.kind != Kind::kRepeat || node.b != 0 || node.c != kNoMaximum) return 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i] == node.a) return static_cast<std::uint8_t>(1u << i);
  }
  return 0;
}

ExpressionId ExpressionPool::Not(Id operand) {
  if (operand == kNothing) return any_;
  if (operand == any_) return kNothing;
  const Node& node = nodes_[operand];
  Check((node.flags & kHasLetters) == 0, "expected a regular expression below Not");
  if (node.kind == Kind::kNot) return node.a;
  const bool nullable = (node.flags & kNullable) == 0;
  const auto flags = static_cast<std::uint8_t>(kHasBooleans | kFirstByte | kMayBeEndless |
                                               FlagIf(nullable, kNullable));
  return Intern(
      {.kind = Kind::kNot, .flags = flags, .a = operand, .min_length = nullable ? 0u : 1u});
}

ExpressionId ExpressionPool::And(std::span<const Id> all) {
  std::vector<Id> list;
  std::vector<Id> negated;
  ByteSet set = ByteSet::All();
  bool has_set = false;
  const auto add = [&](Id id) {
    const Node& node = nodes_[id];
    Check((node.flags & kHasLetters) == 0, "expected regular expressions below And");
    if (node.kind == Kind::kBytes) {
      set = set & sets_[node.a];
      has_set = true;
    } else if (node.kind == Kind::kNot) {
      negated.push_back(node.a);
    } else if (id != any_) {
      list.push_back(id);
    }
  };
  for (const Id id : all) {
    if (nodes_[id].kind == Kind::kAnd) {
      for (const Id inner : Operands(nodes_[id])) add(inner);
    } else {
      add(id);
    }
  }
  meter_.Spend((list.size() + negated.size()) / kOperandsPerStep);
  SortUnique(list);
  for (const Id id : negated) {
    if (std::ranges::binary_search(list, id)) return kNothing;
  }
  if (!negated.empty()) list.push_back(Not(Or(negated)));
  if (has_set) list.push_back(Bytes(set));
  SortUnique(list);
  // Drop operands that contain another operand.
  for (std::size_t i = 0; i < list.size();) {
    const std::uint8_t bit = UniverseBit(list[i]);
    const bool holds_other = std::ranges::any_of(list, [&](Id other) {
      return bit != 0 && other != list[i] && (nodes_[other].within & bit) != 0;
    });
    if (holds_other) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (list.empty()) return any_;
  if (list.size() == 1) return list[0];
  std::uint8_t flags = kHasBooleans | kNullable | kFirstByte | kMayBeEndless;
  std::uint8_t within = 0;
  std::uint32_t min_length = 0;
  for (const Id id : list) {
    const Node& node = nodes_[id];
    if (id == kNothing) return kNothing;
    if ((node.flags & kNullable) == 0) flags &= static_cast<std::uint8_t>(~kNullable);
    if ((node.flags & kFirstByte) == 0) flags &= static_cast<std::uint8_t>(~kFirstByte);
    if ((node.flags & kMayBeEndless) == 0) flags &= static_cast<std::uint8_t>(~kMayBeEndless);
    within |= node.within;
    min_length = std::max(min_length, node.min_length);
  }
  if ((flags & kFirstByte) == 0) return (flags & kNullable) != 0 ? kEmpty : kNothing;
  return Intern({.kind = Kind::kAnd, .flags = flags, .within = within, .min_length = min_length},
                list);
}

// --- Properties and bounds ---

void ExpressionPool::DeclareWithin(Id part, Id unit) {
  auto at = std::ranges::find(units_, unit);
  if (at == units_.end()) {
    if (units_.size() == kMaxUnits || unit <= kEmpty) return;
    at = units_.insert(at, unit);
  }
  const auto bit = static_cast<std::uint8_t>(1u << std::distance(units_.begin(), at));
  nodes_[unit].within |= bit;
  nodes_[part].within |= bit;
}

ExpressionView ExpressionPool::View(Id id) const {
  const Node& node = nodes_[id];
  ExpressionView view = {.kind = node.kind};
  if (node.kind == Kind::kLetter) view.letter = letters_[node.a];
  if (HasOperands(node.kind)) view.operands = Operands(node);
  if (node.kind == Kind::kConcat) view.operands = {&node.a, 2};
  if (node.kind == Kind::kNot || node.kind == Kind::kRepeat) view.operands = {&node.a, 1};
  if (node.kind == Kind::kRepeat) {
    view.minimum = node.b;
    view.maximum = node.c;
  }
  return view;
}

std::size_t ExpressionPool::memory() const {
  return nodes_.capacity() * sizeof(Node) + operands_.capacity() * sizeof(Id) +
         text_bytes_.capacity() + table_.capacity() * sizeof(Slot) +
         sets_.size() * 3 * sizeof(ByteSet) + derivatives_.memory() + pruned_.memory();
}

void ExpressionPool::SetLimit(std::size_t more_expressions) {
  limit_ = size() + more_expressions;
  if (exceeded_) pruned_.Clear();  // searches were given up
  exceeded_ = false;
}

}  // namespace fathom::constraint
