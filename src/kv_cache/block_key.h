// BlockKey: the name of 128 tokens and of everything before them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/tensor.h"

namespace fathom {

// XXH3-128 of the key of the block before it and the tokens of the block; the key before the first
// block is the fingerprint of what computed them.
struct BlockKey {
  std::array<std::uint8_t, 16> bytes = {};
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

struct BlockKeyHash {
  std::size_t operator()(const BlockKey& key) const {
    std::size_t hash = 0;
    std::memcpy(&hash, key.bytes.data(), sizeof(hash));
    return hash;
  }
};

// History blocks hold what is kept of 128 tokens, window blocks what only the tokens right behind
// them see (sequence_cache.h).
enum class BlockKind : std::uint8_t { kHistory, kWindow };

// The XXH3-128 of some bytes. The same on every machine: keys are the names of files.
BlockKey HashBytes(std::span<const std::byte> bytes);

// Returns the key before the first block of texts that share blocks with texts of the same salt
// alone. Without a salt it is `root`.
BlockKey SaltedRoot(const BlockKey& root, std::string_view salt);

// The key of the block of `tokens` (at most kBlockTokens) that follows the block `parent`.
BlockKey NextBlockKey(const BlockKey& parent, std::span<const Token> tokens);

}  // namespace fathom
