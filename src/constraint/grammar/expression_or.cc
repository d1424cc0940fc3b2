// Or in its normal form: flat, sorted, with the common beginnings of alternatives factored out:
// xa|xb is x(a|b), and x{1,3}a|x{2,5}a is x{1,5}a. The beginnings of texts are factored out byte by
// byte.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "constraint/grammar/expression_impl.h"

namespace fathom {
namespace {

// An alternative as operand{minimum,maximum} rest.
struct CountedAlternative {
  ExpressionId operand = 0;
  ExpressionId rest = 0;
  std::uint32_t minimum = 1;
  std::uint32_t maximum = 1;
  ExpressionId id = 0;
};

// Frames of one Or that factor out common beginnings. Further frames leave alternatives as they
// are, so that the alternatives of two large tries are joined only where a text leads.
constexpr std::size_t kMaxFactoredFrames = 4096;

void SortUnique(std::vector<ExpressionId>& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

// The rests of each group are an Or of their own, made on top of this one.
struct ExpressionPool::Impl::OrFrame {
  struct Group {
    Id first = 0;
    std::vector<Id> rests;
  };
  std::vector<Id> ready;  // alternatives of the result
  std::vector<Group> groups;
  std::size_t next = 0;  // index of the next group
  std::uint8_t within = 0xFF;
};

ExpressionPool::Impl::OrFrame ExpressionPool::Impl::BeginOr(std::span<const Id> alternatives,
                                                            bool factor) {
  OrFrame frame;
  std::vector<Id> list;
  list.reserve(alternatives.size() + 1);
  ByteSet set;
  const auto add = [&](Id id) {
    if (nodes[id].kind == Kind::kBytes) {
      set = set | sets[nodes[id].a];
    } else {
      list.push_back(id);
    }
  };
  for (const Id id : alternatives) {
    const ExpressionNode& node = nodes[id];
    if (node.kind == Kind::kNothing) continue;
    frame.within &= node.within;
    if (node.kind == Kind::kOr) {
      for (const Id inner : Operands(node)) add(inner);
    } else {
      add(id);
    }
  }
  if (!set.empty()) list.push_back(Bytes(set));
  meter.Spend(1 + list.size() / kOperandsPerStep);
  SortUnique(list);

  // Alternatives within another alternative are dropped.
  std::uint8_t universes = 0;
  bool has_any = false;
  std::size_t n_nullable = 0;
  for (const Id id : list) {
    universes |= UniverseBit(id);
    has_any |= id == any;
    n_nullable += Has(id, kNullable) ? 1 : 0;
  }
  std::erase_if(list, [&](Id id) {
    if (id == any) return false;
    if (has_any && !Has(id, kHasLetters)) return true;
    if (id == kEmpty && n_nullable > 1) return true;
    return (nodes[id].within & universes) != 0 && (UniverseBit(id) & universes) == 0;
  });
  if (factor) {
    GroupByFirst(list, frame);
  } else {
    frame.ready = std::move(list);
  }
  return frame;
}

void ExpressionPool::Impl::GroupByFirst(std::span<const Id> list, OrFrame& frame) {
  struct Item {
    Id first, rest, id, text;  // `text`: precedes the rest, without its first byte
  };
  std::vector<Item> items;
  items.reserve(list.size());
  for (const Id id : list) {
    const ExpressionNode& node = nodes[id];
    const bool is_concat = node.kind == Kind::kConcat;
    const Id first = is_concat ? node.a : id;
    const Id rest = is_concat ? node.b : kEmpty;
    if (nodes[first].kind == Kind::kText) {
      const auto byte = static_cast<std::uint8_t>(text_bytes[nodes[first].a]);
      items.push_back({byte_ids[byte], rest, id, first});
    } else {
      items.push_back({first, rest, id, kNothing});
    }
  }
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return std::tie(a.first, a.id) < std::tie(b.first, b.id);
  });
  frame.ready.reserve(items.size());
  for (std::size_t i = 0; i < items.size();) {
    std::size_t end = i + 1;
    while (end < items.size() && items[end].first == items[i].first) ++end;
    if (end == i + 1) {
      frame.ready.push_back(items[i].id);
    } else {
      OrFrame::Group& group = frame.groups.emplace_back();
      group.first = items[i].first;
      group.rests.reserve(end - i);
      for (std::size_t k = i; k < end; ++k) {
        const Id text = items[k].text;
        group.rests.push_back(text == kNothing
                                  ? items[k].rest
                                  : Concat(Literal(Text(nodes[text]).substr(1)), items[k].rest));
      }
    }
    i = end;
  }
}

void ExpressionPool::Impl::MergeCounts(std::vector<Id>& list) {
  const auto is_counted = [&](Id id) {
    const ExpressionNode& node = nodes[id];
    return (node.kind == Kind::kConcat ? nodes[node.a] : node).kind == Kind::kRepeat;
  };
  if (list.size() < 2 || std::ranges::none_of(list, is_counted)) return;
  std::vector<CountedAlternative> items;
  items.reserve(list.size());
  for (const Id id : list) {
    const ExpressionNode& node = nodes[id];
    const bool is_concat = node.kind == Kind::kConcat;
    CountedAlternative& item = items.emplace_back();
    item = {.operand = is_concat ? node.a : id, .rest = is_concat ? node.b : kEmpty, .id = id};
    const ExpressionNode& first = nodes[item.operand];
    if (first.kind != Kind::kRepeat) continue;
    item.operand = first.a;
    item.minimum = first.b;
    item.maximum = first.c;
  }
  std::ranges::sort(items, [](const CountedAlternative& a, const CountedAlternative& b) {
    return std::tie(a.operand, a.rest, a.minimum) < std::tie(b.operand, b.rest, b.minimum);
  });
  std::vector<Id> absorbed;
  std::vector<Id> merged;
  for (std::size_t i = 0; i < items.size();) {
    CountedAlternative joined = items[i];
    std::size_t end = i + 1;
    for (;
         end < items.size() && items[end].operand == joined.operand &&
         items[end].rest == joined.rest && items[end].minimum <= std::uint64_t{joined.maximum} + 1;
         ++end) {
      joined.maximum = std::max(joined.maximum, items[end].maximum);
    }
    bool changed = end > i + 1;
    // A rest without the operand is the operand 0 times.
    if (joined.maximum > 1 && joined.minimum <= 1 &&
        std::ranges::binary_search(list, joined.rest)) {
      absorbed.push_back(joined.rest);
      changed |= joined.minimum == 1;
      joined.minimum = 0;
    }
    merged.push_back(
        changed ? Concat(Repeat(joined.operand, joined.minimum, joined.maximum), joined.rest)
                : joined.id);
    i = end;
  }
  SortUnique(merged);
  SortUnique(absorbed);
  std::erase_if(merged, [&](Id id) { return std::ranges::binary_search(absorbed, id); });
  list = std::move(merged);
}

ExpressionId ExpressionPool::Impl::FinishOr(OrFrame& frame) {
  std::vector<Id>& list = frame.ready;
  SortUnique(list);
  MergeCounts(list);
  if (list.empty()) return kNothing;
  if (list.size() == 1) {
    nodes[list[0]].within |= frame.within;
    return list[0];
  }
  ExpressionNode made{.kind = Kind::kOr, .min_length = 0xFFFFFFFF};
  std::uint8_t within = 0xFF;
  for (const Id id : list) {
    const ExpressionNode& node = nodes[id];
    made.flags |= node.flags;
    within &= node.within;
    made.min_length = std::min(made.min_length, node.min_length);
  }
  made.within = static_cast<std::uint8_t>(within | frame.within);
  return Intern(made, list);
}

ExpressionId ExpressionPool::Impl::Or(std::span<const Id> alternatives) {
  std::vector<OrFrame> stack;
  stack.push_back(BeginOr(alternatives, true));
  std::size_t n_frames = 1;
  for (;;) {
    OrFrame& top = stack.back();
    if (top.next < top.groups.size()) {
      // `rests` is not read again.
      const std::vector<Id> rests = std::move(top.groups[top.next].rests);
      stack.push_back(BeginOr(rests, ++n_frames <= kMaxFactoredFrames));
      continue;
    }
    const Id made = FinishOr(top);
    stack.pop_back();
    if (stack.empty()) return made;
    OrFrame& parent = stack.back();
    parent.ready.push_back(Concat(parent.groups[parent.next++].first, made));
  }
}

ExpressionId ExpressionPool::Impl::Or(Id a, Id b) {
  if (a == b || b == kNothing) return a;
  if (a == kNothing) return b;
  const Id both[] = {a, b};
  return Or(both);
}

}  // namespace fathom
