// Vocabulary: the bytes of each token. BpeModel: the merges of tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "tokenizer/tokenizer_file.h"

namespace fathom::tokenizer {

// Owns the bytes of all tokens in one block; immutable; movable.
class Vocabulary {
 public:
  // Refuses a duplicate id, ids with more than 262,144 unused ids between them, an added token that
  // the vocabulary has under another id or with other bytes, and entries that are neither
  // byte-level symbols nor an added token.
  static Result<Vocabulary> Build(const TokenizerFile& file);

  // Returns the highest id + 1.
  std::int64_t size() const { return static_cast<std::int64_t>(is_special_.size()); }
  // Returns no bytes if there is no such token. Valid as long as the vocabulary is neither moved
  // nor destroyed.
  std::string_view Bytes(Token token) const {
    if (token < 0 || token >= size()) return {};
    const auto i = static_cast<std::size_t>(token);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  // Returns the size of the longest token in bytes.
  std::size_t longest() const { return longest_; }
  bool IsSpecial(Token token) const {
    return token >= 0 && token < size() && is_special_[static_cast<std::size_t>(token)];
  }

 private:
  Vocabulary() = default;

  std::string bytes_;
  std::vector<std::uint32_t> begins_;  // [size + 1]: token i is bytes_[begins_[i], begins_[i + 1])
  std::vector<bool> is_special_;       // [size]
  std::size_t longest_ = 0;
};

struct Merge {
  Token left;
  Token right;
  Token product;
};

struct BpeModel {
  std::array<Token, 256> byte_tokens;  // the token of each byte
  std::vector<Merge> merges;           // by rank; no pair twice
  std::vector<Token> tokens;           // all tokens that are byte-level symbols
  bool ignore_merges = false;
};

// Replaces names by ids. Refuses a byte without a token, a merge with or into unknown tokens, a
// pair that is merged twice.
Result<BpeModel> ResolveMerges(const TokenizerFile& file);

}  // namespace fathom::tokenizer
