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

  // Returns the first match at or after `start`: leftmost, then longest. Reads no byte outside
  // text.
  std::optional<AddedTokenMatch> FindNext(std::string_view text, std::size_t start) const;

  // Returns the token with this text.
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
