// ExpressionPool::AnyLiteral: a trie whose equal ends are shared by hash-consing.
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>

#include "constraint/grammar/expression_impl.h"

namespace fathom {
namespace {

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

ExpressionId ExpressionPool::Impl::AnyLiteral(std::vector<std::string_view>& texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
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

}  // namespace fathom
