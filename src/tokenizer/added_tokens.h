// AddedTokenFinder: finds the added tokens (control tokens and markers) in text.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "tokenizer/tokenizer_file.h"

namespace fathom {

struct AddedTokenMatch {
  std::size_t begin;  // bytes of the searched text
  std::size_t end;
  Token token;
};

// Owns a copy of the texts; immutable after construction, movable.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::span<const AddedToken> tokens);

  // The first match at or after `start`: leftmost, and of those the longest. Looks at no byte
  // outside text.
  std::optional<AddedTokenMatch> FindNext(std::string_view text, std::size_t start) const;

  // The token whose text this is.
  std::optional<Token> Find(std::string_view text) const;

 private:
  struct Entry {
    std::string text;
    Token token;
  };

  std::vector<Entry> entries_;  // sorted by text
  std::bitset<256> first_bytes_;
};

}  // namespace fathom
