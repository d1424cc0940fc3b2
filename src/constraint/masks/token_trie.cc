#include "constraint/masks/token_trie.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kLongestText = 255;

bool ContinuesCharacter(std::uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The bytes that follow in a character; 0 where no character of several bytes begins so.
int BytesAfter(std::uint8_t first) {
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
}

// True where not every continuation byte makes a plain character.
bool RestrictsNext(std::uint8_t first) {
  return first == 0xE0 || first == 0xED || first == 0xEF || first == 0xF0 || first == 0xF4;
}

}  // namespace

TokenTrie TokenTrie::Make(std::vector<Entry> others, std::vector<Entry> plain) {
  TokenTrie trie;
  trie.Append(std::move(others));
  trie.plain_begin_ = trie.nodes_.size();
  trie.Append(std::move(plain));
  trie.kinds_.resize(trie.nodes_.size());
  trie.FindKinds(0, false);
  trie.FindKinds(trie.plain_begin_, true);
  return trie;
}

void TokenTrie::Append(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) {
    return entry.text.empty() || entry.text.size() > kLongestText;
  });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.text != b.text ? a.text < b.text : a.token < b.token;
  });
  std::vector<std::size_t> path;  // the nodes from the root to the last text
  std::string_view last;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
    }
  };
  for (const Entry& entry : entries) {
    const auto differ =
        std::mismatch(last.begin(), last.end(), entry.text.begin(), entry.text.end());
    leave(static_cast<std::size_t>(differ.second - entry.text.begin()));
    while (path.size() < entry.text.size()) {
      const auto byte = static_cast<std::uint8_t>(entry.text[path.size()]);
      path.push_back(nodes_.size());
      nodes_.push_back({.byte = byte,
                        .depth = static_cast<std::uint8_t>(path.size()),
                        .first_token = static_cast<std::uint32_t>(tokens_.size())});
    }
    tokens_.push_back(entry.token);
    last = entry.text;
    max_depth_ = std::max(max_depth_, static_cast<int>(entry.text.size()));
  }
  leave(0);
}

// Finds the kinds of the nodes from `begin` to the last one of that trie.
void TokenTrie::FindKinds(std::size_t begin, bool is_plain) {
  const std::size_t end = is_plain ? nodes_.size() : plain_begin_;
  std::vector<int> missing(end - begin);  // bytes up to the end of the character; -1: none is valid
  std::vector<int> before(static_cast<std::size_t>(max_depth_) + 1, 0);  // by depth
  for (std::size_t i = begin; i < end; ++i) {
    const TrieNode& node = nodes_[i];
    const int above = before[node.depth - 1u];
    int here = -1;
    if (above > 0 && ContinuesCharacter(node.byte)) here = above - 1;
    if (above == 0 && !ContinuesCharacter(node.byte)) {
      here = !is_plain && RestrictsNext(node.byte) ? -1 : BytesAfter(node.byte);
    }
    missing[i - begin] = before[node.depth] = here;
  }
  std::vector<int> characters(end - begin, 0);  // below a node, in the longest text
  for (std::size_t i = end; i-- > begin;) {
    for (std::size_t child = i + 1; child < nodes_[i].end; child = nodes_[child].end) {
      const bool is_first = !ContinuesCharacter(nodes_[child].byte);
      kinds_[i] |= kinds_[child] | (is_first ? KindBit(nodes_[child].byte) : 0);
      if (missing[child - begin] < 0) kinds_[i] |= kNotPlain;
      characters[i - begin] =
          std::max(characters[i - begin], characters[child - begin] + (is_first ? 1 : 0));
    }
  }
  for (std::size_t i = begin; i < end; ++i) {
    if (missing[i - begin] != 0 || characters[i - begin] > kLargestSlice) kinds_[i] |= kNotPlain;
  }
}

void TokenTrie::ReadText(std::size_t node, std::vector<std::uint8_t>& bytes) const {
  bytes.clear();
  std::size_t at = node < plain_begin_ ? 0 : plain_begin_;
  for (;;) {
    while (nodes_[at].end <= node) at = nodes_[at].end;
    bytes.push_back(nodes_[at].byte);
    if (at++ == node) return;
  }
}

// Counts within the bytes of words first: no instruction that counts bits is taken for granted.
std::int64_t TokenSet::size() const {
  constexpr std::size_t kWords = 31;  // words whose counts fit a byte
  std::int64_t n = 0;
  for (std::size_t first = 0; first < words_.size(); first += kWords) {
    const std::size_t end = std::min(first + kWords, words_.size());
    std::uint64_t by_byte = 0;
    for (std::size_t i = first; i < end; ++i) {
      std::uint64_t word = words_[i];
      word -= word >> 1 & 0x5555555555555555;
      word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
      by_byte += (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F;
    }
    const std::uint64_t pairs =
        (by_byte & 0x00FF00FF00FF00FF) + (by_byte >> 8 & 0x00FF00FF00FF00FF);
    n += static_cast<std::int64_t>(pairs * 0x0001000100010001 >> 48);
  }
  return n;
}

int PlainCodePoints(std::string_view text) {
  constexpr std::string_view kFullwidthBar = "\xEF\xBD\x9C";
  const bool is_plain = std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\' && c != '<';
  });
  if (!is_plain || text.find(kFullwidthBar) != text.npos || !IsValidUtf8(text)) return 0;
  const auto n = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return n <= kLargestSlice ? static_cast<int>(n) : 0;
}

}  // namespace fathom::constraint
