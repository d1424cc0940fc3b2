// Texts of whole blocks for tests of the prefix cache: each letter is one block.
#pragma once

#include <string>
#include <vector>

#include "kv_cache/block_key.h"

namespace fathom::testing {

inline std::vector<Token> LetterTokens(const std::string& letters) {
  std::vector<Token> tokens;
  for (const char letter : letters) {
    tokens.insert(tokens.end(), kBlockTokens, letter);
  }
  return tokens;
}

// The keys of the blocks behind `root`.
inline std::vector<BlockKey> LetterKeys(const BlockKey& root, const std::string& letters) {
  std::vector<BlockKey> keys;
  ExtendKeys(root, LetterTokens(letters), keys);
  return keys;
}

}  // namespace fathom::testing
