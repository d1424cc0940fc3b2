#include "constraint/token_trie.h"

#include <algorithm>
#include <bit>

#include "base/utf8.h"

namespace fathom {
namespace {

constexpr std::size_t kLongestText = 255;

}  // namespace

TokenTrie TokenTrie::Make(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) {
    return entry.text.empty() || entry.text.size() > kLongestText;
  });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.text != b.text ? a.text < b.text : a.token < b.token;
  });
  TokenTrie trie;
  std::vector<std::size_t> path;  // the nodes from the root to the last text
  std::string_view last;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      trie.nodes_[path.back()].end = static_cast<std::uint32_t>(trie.nodes_.size());
    }
  };
  for (const Entry& entry : entries) {
    const auto differ =
        std::mismatch(last.begin(), last.end(), entry.text.begin(), entry.text.end());
    leave(static_cast<std::size_t>(differ.second - entry.text.begin()));
    while (path.size() < entry.text.size()) {
      const auto byte = static_cast<std::uint8_t>(entry.text[path.size()]);
      path.push_back(trie.nodes_.size());
      trie.nodes_.push_back({.byte = byte,
                             .depth = static_cast<std::uint8_t>(path.size()),
                             .first_token = static_cast<std::uint32_t>(trie.tokens_.size())});
    }
    trie.tokens_.push_back(entry.token);
    last = entry.text;
    trie.max_depth_ = std::max(trie.max_depth_, static_cast<int>(entry.text.size()));
  }
  leave(0);
  return trie;
}

std::int64_t TokenSet::size() const {
  std::int64_t n = 0;
  for (const std::uint64_t word : words_) n += std::popcount(word);
  return n;
}

int PlainCodePoints(std::string_view text) {
  constexpr std::string_view kFullwidthBar = "\xEF\xBD\x9C";
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\' && c != '<';
  });
  if (!is_plain || text.find(kFullwidthBar) != text.npos || !IsValidUtf8(text)) return 0;
  const auto n = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  return n <= kLargestSlice ? static_cast<int>(n) : 0;
}

}  // namespace fathom
