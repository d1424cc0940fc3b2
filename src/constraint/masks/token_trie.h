// TokenTrie: the texts of a vocabulary as a trie of bytes, flat and in the order of a depth-first
// walk, and the slices of tokens that most strings may contain (docs/spec/constrained.md 3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "constraint/grammar/character_classes.h"

namespace fathom::constraint {

// A node stands for the bytes from the root to it. Its children follow it.
struct TrieNode {
  std::uint8_t byte = 0;
  std::uint8_t depth = 0;         // length of the text, at least 1
  std::uint32_t end = 0;          // the first node after this one and all below
  std::uint32_t first_token = 0;  // its tokens are tokens()[first_token, next node's first_token)
};

class TokenTrie {
 public:
  struct Entry {
    std::string_view text;
    Token token = 0;
  };
  // Two tries, one after the other: `others`, then `plain`, whose texts are in the largest slice.
  // Entries with equal texts share a node. Texts longer than 255 bytes and empty ones are left out:
  // no grammar allows these tokens.
  static TokenTrie Make(std::vector<Entry> others, std::vector<Entry> plain = {});

  std::span<const TrieNode> nodes() const { return nodes_; }
  // The first node of the plain texts.
  std::size_t plain_begin() const { return plain_begin_; }
  // The tokens with the text of a node.
  std::span<const Token> TokensAt(std::size_t node) const { return TokensIn(node, node + 1); }
  // The tokens of the nodes from `first` to the one before `end`.
  std::span<const Token> TokensIn(std::size_t first, std::size_t end) const {
    const std::size_t begin = FirstToken(first);
    return std::span(tokens_).subspan(begin, FirstToken(end) - begin);
  }
  // The kinds of the characters that follow in the texts below a node; with kNotPlain where the
  // node ends within a character, or a text below goes on with more than kLargestSlice characters
  // or with something that is not plain.
  CharacterClasses KindsBelow(std::size_t node) const { return kinds_[node]; }
  // Sets `bytes` to the text of a node. O(depth * children).
  void ReadText(std::size_t node, std::vector<std::uint8_t>& bytes) const;
  int max_depth() const { return max_depth_; }

 private:
  void Append(std::vector<Entry> entries);
  void FindKinds(std::size_t begin, bool is_plain);
  std::size_t FirstToken(std::size_t node) const {
    return node < nodes_.size() ? nodes_[node].first_token : tokens_.size();
  }

  std::vector<TrieNode> nodes_;
  std::vector<CharacterClasses> kinds_;
  std::vector<Token> tokens_;
  std::size_t plain_begin_ = 0;
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
  void Add(std::span<const Token> tokens) {
    for (const Token token : tokens) Add(token);
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
  void Clear() { words_.assign(words_.size(), 0); }
  std::int64_t size() const;
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

// Returns the number of code points of a plain text of at most kLargestSlice, or 0.
int PlainCodePoints(std::string_view text);

}  // namespace fathom::constraint
