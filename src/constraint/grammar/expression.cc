#include "constraint/grammar/expression.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"
#include "constraint/grammar/expression_impl.h"

namespace fathom {
namespace {

constexpr std::uint32_t kMaxLength = 0xFFFFFFFF;

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

// --- IdMap ---

// Four consecutive keys are next to each other, because an expression is derived by many symbols.
// The slot grows with the hash, so that a table is copied to a larger one from front to end.
std::size_t IdMap::FindSlot(std::uint64_t key) const {
  const std::uint64_t group = (key / kKeysPerGroup * 0x9E3779B97F4A7C15ULL) >> group_shift_;
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = group * kKeysPerGroup + key % kKeysPerGroup;
  while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
  return at;
}

std::uint32_t IdMap::Find(std::uint64_t key) const {
  if (slots_.empty()) return kNone;
  const Slot& slot = slots_[FindSlot(key)];
  return slot.key == key ? slot.value : kNone;
}

void IdMap::Set(std::uint64_t key, std::uint32_t value) {
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Slot> old(std::max<std::size_t>(kLeastSlots, 2 * slots_.size()));
    old.swap(slots_);
    group_shift_ = 64 - std::countr_zero(slots_.size() / kKeysPerGroup);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[FindSlot(slot.key)] = slot;
    }
  }
  Slot& slot = slots_[FindSlot(key)];
  if (slot.key == kFree) ++size_;
  slot = {.key = key, .value = value};
}

void IdMap::Clear() {
  slots_.clear();
  size_ = 0;
}

// --- Nodes ---

ExpressionPool::Impl::Impl(WorkMeter* counts)
    : own_meter(counts == nullptr ? std::make_unique<WorkMeter>() : nullptr),
      meter(counts == nullptr ? *own_meter : *counts) {
  Intern({.kind = Kind::kNothing, .within = 0xFF, .min_length = kMaxLength});
  Intern({.kind = Kind::kEmpty, .flags = kNullable, .within = 0xFF});
  any = Repeat(Bytes(ByteSet::All()), 0, kNoMaximum);
}

std::uint32_t ExpressionPool::Impl::HashNode(const ExpressionNode& node, std::span<const Id> list) {
  std::uint64_t hash = MixHash(0x13198A2E03707344ULL, static_cast<std::uint64_t>(node.kind));
  if (HasOperands(node.kind)) {
    for (const Id id : list) hash = MixHash(hash, id);
  } else {
    hash = MixHash(hash, std::uint64_t{node.a} << 32 | node.b);
    hash = MixHash(hash, node.c);
  }
  return static_cast<std::uint32_t>(hash);
}

bool ExpressionPool::Impl::Equal(const ExpressionNode& a, const ExpressionNode& b,
                                 std::span<const Id> list) const {
  if (a.kind != b.kind) return false;
  if (HasOperands(a.kind)) return std::ranges::equal(Operands(a), list);
  return a.a == b.a && a.b == b.b && a.c == b.c;
}

void ExpressionPool::Impl::GrowTable() {
  std::vector<Slot> old(std::max<std::size_t>(1024, 2 * table.size()));
  old.swap(table);
  const std::size_t mask = table.size() - 1;
  for (const Slot& slot : old) {
    if (slot.next_id == 0) continue;
    std::size_t at = slot.hash & mask;
    while (table[at].next_id != 0) at = (at + 1) & mask;
    table[at] = slot;
  }
}

ExpressionId ExpressionPool::Impl::Intern(ExpressionNode node, std::span<const Id> list) {
  meter.Spend(1 + list.size() / kOperandsPerStep);
  if (2 * (nodes.size() + 1) > table.size()) GrowTable();
  const std::size_t mask = table.size() - 1;
  const std::uint32_t hash = HashNode(node, list);
  std::size_t at = hash & mask;
  for (; table[at].next_id != 0; at = (at + 1) & mask) {
    const Id id = table[at].next_id - 1;
    if (table[at].hash == hash && Equal(nodes[id], node, list)) {
      nodes[id].within |= node.within;
      return id;
    }
  }
  if (HasOperands(node.kind)) {
    node.a = static_cast<std::uint32_t>(operands.size());
    node.b = static_cast<std::uint32_t>(list.size());
    operands.insert(operands.end(), list.begin(), list.end());
  }
  Keep(kBytesPerNode + list.size() * kBytesPerOperand);
  nodes.push_back(node);
  table[at] = {.hash = hash, .next_id = static_cast<Id>(nodes.size())};
  return static_cast<Id>(nodes.size() - 1);
}

ExpressionId ExpressionPool::Impl::Bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  const auto [entry, is_new] = set_ids.try_emplace(set, static_cast<std::uint32_t>(sets.size()));
  if (is_new) {
    sets.push_back(set);
    if (has_classes) RefineClasses(set);
  }
  return Intern({.kind = Kind::kBytes, .flags = kFirstByte, .a = entry->second, .min_length = 1});
}

ExpressionId ExpressionPool::Impl::Byte(std::uint8_t byte) {
  if (byte_ids[byte] == kNothing) byte_ids[byte] = Bytes(ByteSet::Of(byte));
  return byte_ids[byte];
}

ExpressionId ExpressionPool::Impl::Literal(std::string_view text) {
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

ExpressionId ExpressionPool::Impl::InternText(std::string_view text) {
  meter.Spend(1 + text.size() / kOperandsPerStep);
  if (2 * (nodes.size() + 257) > table.size()) GrowTable();
  std::uint64_t hash = MixHash(0xA4093822299F31D0ULL, text.size());
  std::uint8_t within = 0xFF;
  for (const char c : text) {
    const Id byte = Byte(static_cast<std::uint8_t>(c));
    within &= nodes[byte].within;
    hash = MixHash(hash, byte);
  }
  const std::size_t mask = table.size() - 1;
  const auto short_hash = static_cast<std::uint32_t>(hash);
  std::size_t at = short_hash & mask;
  for (; table[at].next_id != 0; at = (at + 1) & mask) {
    const ExpressionNode& node = nodes[table[at].next_id - 1];
    if (table[at].hash == short_hash && node.kind == Kind::kText && Text(node) == text) {
      return table[at].next_id - 1;
    }
  }
  const char* const begin = text_bytes.data();
  const bool is_inside = text.data() >= begin && text.data() < begin + text_bytes.size();
  const auto offset = static_cast<std::uint32_t>(
      is_inside ? static_cast<std::size_t>(text.data() - begin) : text_bytes.size());
  if (!is_inside) text_bytes += text;
  Keep(kBytesPerNode + (is_inside ? 0 : 2 * text.size()));
  const auto length = static_cast<std::uint32_t>(text.size());
  nodes.push_back({.kind = Kind::kText,
                   .flags = kFirstByte,
                   .within = within,
                   .a = offset,
                   .b = length,
                   .min_length = length});
  table[at] = {.hash = short_hash, .next_id = static_cast<Id>(nodes.size())};
  return static_cast<Id>(nodes.size() - 1);
}

ExpressionId ExpressionPool::Impl::OneLetter(Letter letter) {
  const auto [entry, is_new] =
      letter_ids.try_emplace(letter, static_cast<std::uint32_t>(letters.size()));
  if (is_new) letters.push_back(letter);
  return Intern({.kind = Kind::kLetter,
                 .flags = kHasLetters | kFirstLetter,
                 .a = entry->second,
                 .min_length = 1});
}

ExpressionId ExpressionPool::Impl::Concat(Id first, Id second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  if (nodes[first].kind != Kind::kConcat) return ConcatOne(first, second);
  // The parts of `first`, a few at a time, so that most lists need no memory.
  constexpr std::size_t kFewParts = 24;
  std::array<Id, kFewParts> few;
  std::vector<Id> many;
  std::size_t n = 0;
  for (;; first = nodes[first].b) {
    const bool is_concat = nodes[first].kind == Kind::kConcat;
    const Id part = is_concat ? nodes[first].a : first;
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

ExpressionId ExpressionPool::Impl::ConcatOne(Id part, Id rest) {
  // x{a,b} x{c,d} is x{a+c,b+d}.
  const ExpressionNode& p = nodes[part];
  if (p.kind == Kind::kRepeat) {
    const Id next = nodes[rest].kind == Kind::kConcat ? nodes[rest].a : rest;
    const ExpressionNode& n = nodes[next];
    if (n.kind == Kind::kRepeat && p.a == n.a) {
      const Id after = next == rest ? kEmpty : nodes[rest].b;
      part = Repeat(p.a, SaturatedSum(p.b, n.b), SaturatedSum(p.c, n.c));
      rest = after;
      if (rest == kEmpty) return part;
    }
  }
  const ExpressionNode& a = nodes[part];
  const ExpressionNode& b = nodes[rest];
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

ExpressionId ExpressionPool::Impl::Repeat(Id operand, std::uint32_t minimum,
                                          std::uint32_t maximum) {
  Check(minimum <= maximum, "expected a repetition's minimum to be at most its maximum");
  if (maximum == 0 || operand == kEmpty) return kEmpty;
  if (operand == kNothing) return minimum == 0 ? kEmpty : kNothing;
  if (minimum == 1 && maximum == 1) return operand;
  if (Has(operand, kNullable)) minimum = 0;
  if (minimum == 0 && maximum == 1) return Or(kEmpty, operand);
  const ExpressionNode& node = nodes[operand];
  if (node.kind == Kind::kOr) {
    // (|x)* is x*, and (x*|y)* is (x|y)*.
    std::vector<Id> kept;
    bool changed = false;
    for (const Id id : Operands(node)) {
      const ExpressionNode& o = nodes[id];
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

std::uint8_t ExpressionPool::Impl::UniverseBit(Id id) const {
  const ExpressionNode& node = nodes[id];
  if (node.kind != Kind::kRepeat || node.b != 0 || node.c != kNoMaximum) return 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i] == node.a) return static_cast<std::uint8_t>(1u << i);
  }
  return 0;
}

ExpressionId ExpressionPool::Impl::Not(Id operand) {
  if (operand == kNothing) return any;
  if (operand == any) return kNothing;
  const ExpressionNode& node = nodes[operand];
  Check((node.flags & kHasLetters) == 0, "expected a regular expression below Not");
  if (node.kind == Kind::kNot) return node.a;
  const bool nullable = (node.flags & kNullable) == 0;
  const auto flags = static_cast<std::uint8_t>(kHasBooleans | kFirstByte | kMayBeEndless |
                                               FlagIf(nullable, kNullable));
  return Intern(
      {.kind = Kind::kNot, .flags = flags, .a = operand, .min_length = nullable ? 0u : 1u});
}

ExpressionId ExpressionPool::Impl::And(std::span<const Id> all) {
  std::vector<Id> list;
  std::vector<Id> negated;
  ByteSet set = ByteSet::All();
  bool has_set = false;
  const auto add = [&](Id id) {
    const ExpressionNode& node = nodes[id];
    Check((node.flags & kHasLetters) == 0, "expected regular expressions below And");
    if (node.kind == Kind::kBytes) {
      set = set & sets[node.a];
      has_set = true;
    } else if (node.kind == Kind::kNot) {
      negated.push_back(node.a);
    } else if (id != any) {
      list.push_back(id);
    }
  };
  for (const Id id : all) {
    if (nodes[id].kind == Kind::kAnd) {
      for (const Id inner : Operands(nodes[id])) add(inner);
    } else {
      add(id);
    }
  }
  meter.Spend((list.size() + negated.size()) / kOperandsPerStep);
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  for (const Id id : negated) {
    if (std::ranges::binary_search(list, id)) return kNothing;
  }
  if (!negated.empty()) list.push_back(Not(Or(negated)));
  if (has_set) list.push_back(Bytes(set));
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  // Drop operands that contain another operand.
  for (std::size_t i = 0; i < list.size();) {
    const std::uint8_t bit = UniverseBit(list[i]);
    const bool holds_other = std::ranges::any_of(list, [&](Id other) {
      return bit != 0 && other != list[i] && (nodes[other].within & bit) != 0;
    });
    if (holds_other) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (list.empty()) return any;
  if (list.size() == 1) return list[0];
  std::uint8_t flags = kHasBooleans | kNullable | kFirstByte | kMayBeEndless;
  std::uint8_t within = 0;
  std::uint32_t min_length = 0;
  for (const Id id : list) {
    const ExpressionNode& node = nodes[id];
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

// --- The interface ---

ExpressionPool::ExpressionPool(WorkMeter* meter) : impl_(std::make_unique<Impl>(meter)) {
  SetLimit(1 << 22);
}
ExpressionPool::~ExpressionPool() = default;

ExpressionId ExpressionPool::Nothing() const { return Impl::kNothing; }
ExpressionId ExpressionPool::Empty() const { return Impl::kEmpty; }
ExpressionId ExpressionPool::Bytes(const ByteSet& set) { return impl_->Bytes(set); }
ExpressionId ExpressionPool::OneLetter(Letter letter) { return impl_->OneLetter(letter); }

ExpressionId ExpressionPool::Literal(std::string_view text) { return impl_->Literal(text); }

ExpressionId ExpressionPool::AnyLiteral(std::vector<std::string_view> texts) {
  return impl_->AnyLiteral(texts);
}

ExpressionId ExpressionPool::Concat(ExpressionId first, ExpressionId second) {
  return impl_->Concat(first, second);
}

ExpressionId ExpressionPool::Concat(std::span<const ExpressionId> parts) {
  ExpressionId rest = Impl::kEmpty;
  for (std::size_t i = parts.size(); i-- > 0;) rest = impl_->Concat(parts[i], rest);
  return rest;
}

ExpressionId ExpressionPool::Or(std::span<const ExpressionId> alternatives) {
  return impl_->Or(alternatives);
}
ExpressionId ExpressionPool::And(std::span<const ExpressionId> all) { return impl_->And(all); }
ExpressionId ExpressionPool::Not(ExpressionId operand) { return impl_->Not(operand); }
ExpressionId ExpressionPool::Repeat(ExpressionId operand, std::uint32_t minimum,
                                    std::uint32_t maximum) {
  return impl_->Repeat(operand, minimum, maximum);
}

void ExpressionPool::DeclareWithin(ExpressionId part, ExpressionId unit) {
  std::vector<ExpressionId>& units = impl_->units;
  auto at = std::ranges::find(units, unit);
  if (at == units.end()) {
    if (units.size() == Impl::kMaxUnits || unit <= Impl::kEmpty) return;
    at = units.insert(at, unit);
  }
  const auto bit = static_cast<std::uint8_t>(1u << std::distance(units.begin(), at));
  impl_->nodes[unit].within |= bit;
  impl_->nodes[part].within |= bit;
}

bool ExpressionPool::IsNullable(ExpressionId id) const { return impl_->Has(id, kNullable); }
bool ExpressionPool::HasLetters(ExpressionId id) const { return impl_->Has(id, kHasLetters); }
bool ExpressionPool::HasBooleans(ExpressionId id) const { return impl_->Has(id, kHasBooleans); }
bool ExpressionPool::MayTakeBytes(ExpressionId id) const { return impl_->Has(id, kFirstByte); }
std::uint32_t ExpressionPool::MinLength(ExpressionId id) const {
  return impl_->nodes[id].min_length;
}
ExpressionView ExpressionPool::View(ExpressionId id) const {
  const ExpressionNode& node = impl_->nodes[id];
  ExpressionView view = {.kind = node.kind};
  switch (node.kind) {
    case ExpressionKind::kNothing:
    case ExpressionKind::kEmpty:
    case ExpressionKind::kBytes:
    case ExpressionKind::kText:
    case ExpressionKind::kMultiple:
      break;
    case ExpressionKind::kLetter:
      view.letter = impl_->letters[node.a];
      break;
    case ExpressionKind::kConcat:
      view.operands = {&node.a, 2};
      break;
    case ExpressionKind::kOr:
    case ExpressionKind::kAnd:
      view.operands = impl_->Operands(node);
      break;
    case ExpressionKind::kRepeat:
      view.minimum = node.b;
      view.maximum = node.c;
      [[fallthrough]];
    case ExpressionKind::kNot:
      view.operands = {&node.a, 1};
      break;
  }
  return view;
}

std::size_t ExpressionPool::n_expressions() const { return impl_->nodes.size(); }

std::size_t ExpressionPool::memory() const {
  return impl_->nodes.capacity() * sizeof(ExpressionNode) +
         impl_->operands.capacity() * sizeof(ExpressionId) + impl_->text_bytes.capacity() +
         impl_->table.capacity() * sizeof(Impl::Slot) + impl_->sets.size() * 3 * sizeof(ByteSet) +
         impl_->derivatives.memory() + impl_->pruned.memory();
}

void ExpressionPool::SetLimit(std::size_t more_expressions) {
  impl_->limit = impl_->size() + more_expressions;
  if (impl_->exceeded) impl_->pruned.Clear();  // searches were given up
  impl_->exceeded = false;
}
std::size_t ExpressionPool::size() const { return impl_->size(); }
void ExpressionPool::RaiseLimit(std::size_t more_expressions) { impl_->limit += more_expressions; }
bool ExpressionPool::exceeded() const { return impl_->exceeded || impl_->meter.HasEnded(); }
WorkMeter& ExpressionPool::meter() { return impl_->meter; }

const std::array<std::uint8_t, 256>& ExpressionPool::ByteClasses() {
  impl_->MakeClasses();
  return impl_->class_of;
}
int ExpressionPool::n_byte_classes() {
  impl_->MakeClasses();
  return static_cast<int>(impl_->representatives.size());
}

ExpressionId ExpressionPool::DeriveByte(ExpressionId id, std::uint8_t byte) {
  impl_->MakeClasses();
  return impl_->Derive(id, impl_->Symbol(byte));
}

ExpressionId ExpressionPool::DeriveLetter(ExpressionId id, Letter letter) {
  const auto found = impl_->letter_ids.find(letter);
  if (found == impl_->letter_ids.end()) return Impl::kNothing;
  return impl_->Derive(id, Impl::kFirstLetterSymbol + found->second);
}

ExpressionId ExpressionPool::OverApproximate(ExpressionId id) { return impl_->OverApproximate(id); }

void ExpressionPool::FirstLetters(ExpressionId id, std::vector<Letter>& letters) const {
  impl_->FirstLetters(id, letters);
}

ExpressionId ExpressionPool::Prune(ExpressionId id) {
  impl_->MakeClasses();
  return impl_->Prune(id);
}

}  // namespace fathom
