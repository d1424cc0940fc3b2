// TokenTrie: the texts of a vocabulary as a trie of bytes, flat and in the order of a depth-first
// walk, and the slices of tokens that stand in most strings (docs/spec/constrained.md 3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace fathom {

// A node stands for the bytes from the root to it. Its children follow it.
struct TrieNode {
  std::uint8_t byte = 0;
  std::uint8_t depth = 0;         // length of the text, at least 1
  std::uint32_t end = 0;          // the first node behind this one and all below
  std::uint32_t first_token = 0;  // its tokens are tokens()[first_token, next node's first_token)
};

class TokenTrie {
 public:
  struct Entry {
    std::string_view text;
    Token token = 0;
  };
  // Entries with equal texts share a node. Texts longer than 255 bytes and empty ones are left out:
  // no grammar allows these tokens.
  static TokenTrie Make(std::vector<Entry> entries);

  std::span<const TrieNode> nodes() const { return nodes_; }
  // The tokens whose text a node is.
  std::span<const Token> TokensOf(std::size_t node) const {
    const std::size_t first = nodes_[node].first_token;
    const std::size_t end =
        node + 1 < nodes_.size() ? nodes_[node + 1].first_token : tokens_.size();
    return std::span(tokens_).subspan(first, end - first);
  }
  int max_depth() const { return max_depth_; }

 private:
  std::vector<TrieNode> nodes_;
  std::vector<Token> tokens_;
  int max_depth_ = 0;
};

// A set of tokens, as a bitmap.
class TokenSet {
 public:
  explicit TokenSet(std::int64_t vocab_size = 0)
      : words_((static_cast<std::size_t>(vocab_size) + 63) / 64) {}
  void Add(Token token) {
    words_[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
  void Remove(Token token) {
    words_[static_cast<std::size_t>(token) / 64] &= ~(std::uint64_t{1} << (token % 64));
  }
  bool Has(Token token) const {
    return (words_[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0;
  }
  void Add(const TokenSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  std::int64_t size() const;
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

// Tokens of plain text are whole code points without ", \, <, U+FF5C and control characters: they
// stand in most strings. Slice n has those of at most n code points.
inline constexpr int kLargestSlice = 30;

// Returns the number of code points of a plain text of at most kLargestSlice, or 0.
int PlainCodePoints(std::string_view text);

}  // namespace fathom
