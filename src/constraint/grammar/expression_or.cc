// Or in its normal form: flat, sorted, with the common beginnings of alternatives factored out:
// xa|xb is x(a|b), and x{1,3}a|x{2,5}a is x{1,5}a. The beginnings of texts are factored out byte by
// byte.
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "constraint/grammar/expression.h"
#include "constraint/lists.h"

namespace fathom::constraint {
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

struct LiteralEdge {
  std::uint8_t byte = 0;
  ExpressionId target = 0;
};

// A node of the trie on the path to the last text.
struct LiteralLevel {
  bool ends_text = false;
  std::vector<LiteralEdge> edges;
};

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto [at, other] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(at - a.begin());
}

}  // namespace

// The rests of each group are an Or of their own, made on top of this one.
struct ExpressionPool::OrFrame {
  struct Group {
    Id first = 0;
    std::vector<Id> rests;
  };
  std::vector<Id> ready;  // alternatives of the result
  std::vector<Group> groups;
  std::size_t next = 0;  // index of the next group
  std::uint8_t within = 0xFF;
};

ExpressionPool::OrFrame ExpressionPool::BeginOr(std::span<const Id> alternatives, bool factor) {
  OrFrame frame;
  std::vector<Id> list;
  list.reserve(alternatives.size() + 1);
  ByteSet set;
  const auto add = [&](Id id) {
    if (nodes_[id].kind == Kind::kBytes) {
      set = set | sets_[nodes_[id].a];
    } else {
      list.push_back(id);
    }
  };
  for (const Id id : alternatives) {
    const Node& node = nodes_[id];
    if (node.kind == Kind::kNothing) continue;
    frame.within &= node.within;
    if (node.kind == Kind::kOr) {
      for (const Id inner : Operands(node)) add(inner);
    } else {
      add(id);
    }
  }
  if (!set.empty()) list.push_back(Bytes(set));
  meter_.Spend(1 + list.size() / kOperandsPerStep);
  SortUnique(list);

  // Alternatives within another alternative are dropped.
  std::uint8_t universes = 0;
  bool has_any = false;
  std::size_t n_nullable = 0;
  for (const Id id : list) {
    universes |= UniverseBit(id);
    has_any |= id == any_;
    n_nullable += Has(id, kNullable) ? 1 : 0;
  }
  std::erase_if(list, [&](Id id) {
    if (id == any_) return false;
    if (has_any && !Has(id, kHasLetters)) return true;
    if (id == kEmpty && n_nullable > 1) return true;
    return (nodes_[id].within & universes) != 0 && (UniverseBit(id) & universes) == 0;
  });
  if (factor) {
    GroupByFirst(list, frame);
  } else {
    frame.ready = std::move(list);
  }
  return frame;
}

void ExpressionPool::GroupByFirst(std::span<const Id> list, OrFrame& frame) {
  struct Item {
    Id first, rest, id, text;  // `text`: precedes the rest, without its first byte
  };
  std::vector<Item> items;
  items.reserve(list.size());
  for (const Id id : list) {
    const Node& node = nodes_[id];
    const bool is_concat = node.kind == Kind::kConcat;
    const Id first = is_concat ? node.a : id;
    const Id rest = is_concat ? node.b : kEmpty;
    if (nodes_[first].kind == Kind::kText) {
      const auto byte = static_cast<std::uint8_t>(text_bytes_[nodes_[first].a]);
      items.push_back({byte_ids_[byte], rest, id, first});
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
                                  : Concat(Literal(Text(nodes_[text]).substr(1)), items[k].rest));
      }
    }
    i = end;
  }
}

void ExpressionPool::MergeCounts(std::vector<Id>& list) {
  const auto is_counted = [&](Id id) {
    const Node& node = nodes_[id];
    return (node.kind == Kind::kConcat ? nodes_[node.a] : node).kind == Kind::kRepeat;
  };
  if (list.size() < 2 || std::ranges::none_of(list, is_counted)) return;
  std::vector<CountedAlternative> items;
  items.reserve(list.size());
  for (const Id id : list) {
    const Node& node = nodes_[id];
    const bool is_concat = node.kind == Kind::kConcat;
    CountedAlternative& item = items.emplace_back();
    item = {.operand = is_concat ? node.a : id, .rest = is_concat ? node.b : kEmpty, .id = id};
    const Node& first = nodes_[item.operand];
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

ExpressionId ExpressionPool::FinishOr(OrFrame& frame) {
  std::vector<Id>& list = frame.ready;
  SortUnique(list);
  MergeCounts(list);
  if (list.empty()) return kNothing;
  if (list.size() == 1) {
    nodes_[list[0]].within |= frame.within;
    return list[0];
  }
  Node made{.kind = Kind::kOr, .min_length = 0xFFFFFFFF};
  std::uint8_t within = 0xFF;
  for (const Id id : list) {
    const Node& node = nodes_[id];
    made.flags |= node.flags;
    within &= node.within;
    made.min_length = std::min(made.min_length, node.min_length);
  }
  made.within = static_cast<std::uint8_t>(within | frame.within);
  return Intern(made, list);
}

ExpressionId ExpressionPool::Or(std::span<const Id> alternatives) {
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

ExpressionId ExpressionPool::Or(Id a, Id b) {
  if (a == b || b == kNothing) return a;
  if (a == kNothing) return b;
  const Id both[] = {a, b};
  return Or(both);
}

// Makes a trie whose equal ends are shared by hash-consing.
ExpressionId ExpressionPool::AnyLiteral(std::vector<std::string_view> texts) {
  SortUnique(texts);
  if (texts.size() == 1) return Literal(texts[0]);
  std::vector<LiteralLevel> levels(1);
  std::vector<Id> alternatives;
  const auto close = [&](LiteralLevel& level) {
    alternatives.clear();
    if (level.ends_text) alternatives.push_back(kEmpty);
    std::ranges::sort(level.edges, [](const LiteralEdge& a, const LiteralEdge& b) {
      return std::tie(a.target, a.byte) < std::tie(b.target, b.byte);
    });
    for (std::size_t i = 0; i < level.edges.size();) {
      const Id target = level.edges[i].target;
      ByteSet set;
      for (; i < level.edges.size() && level.edges[i].target == target; ++i) {
        set = set | ByteSet::Of(level.edges[i].byte);
      }
      alternatives.push_back(Concat(Bytes(set), target));
    }
    level.ends_text = false;
    level.edges.clear();
    return alternatives.size() == 1 ? alternatives[0] : Or(alternatives);
  };

  std::string_view open;  // its nodes are levels 0 ... open.size()
  const auto close_down_to = [&](std::size_t depth) {
    if (open.size() <= depth) return;
    // Bytes of the open text that nothing else shares are one text, from `end` backwards.
    std::size_t end = open.size();
    Id target = close(levels[end]);
    const auto edge_at = [&](std::size_t i) {
      levels[i].edges.push_back({static_cast<std::uint8_t>(open[i]),
                                 Concat(Literal(open.substr(i + 1, end - i - 1)), target)});
    };
    for (std::size_t i = open.size() - 1; i > depth; --i) {
      if (!levels[i].ends_text && levels[i].edges.empty()) continue;
      edge_at(i);
      target = close(levels[i]);
      end = i;
    }
    edge_at(depth);
  };
  for (const std::string_view text : texts) {
    close_down_to(CommonPrefix(open, text));
    if (levels.size() <= text.size()) levels.resize(text.size() + 1);
    levels[text.size()].ends_text = true;
    open = text;
  }
  close_down_to(0);
  return close(levels[0]);
}

}  // namespace fathom::constraint
