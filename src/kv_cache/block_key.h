// BlockKey: the name of a block of 128 tokens and of all tokens before it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace fathom::kv_cache {

// XXH3-128 of the key of the block before it and the tokens of the block; the key before the first
// block is the fingerprint of the model that computed the blocks.
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

// History blocks hold the compressed state of 128 tokens, window blocks the state that only the
// next tokens read (sequence_cache.h).
enum class BlockKind : std::uint8_t { kHistory, kWindow };

// A block in the memory of a data rank, and the key under which it is stored.
struct KeptBlock {
  int data_rank = 0;
  BlockKey key;
  BlockKind kind = BlockKind::kHistory;
  BlockKey parent;
  std::vector<Token> tokens;  // kBlockTokens
  std::int32_t block = 0;     // number in the cache
};

// Returns the XXH3-128 of some bytes. It is equal on every machine: keys are the names of files.
BlockKey HashBytes(std::span<const std::byte> bytes);

// Returns the root key of texts with this salt. Texts share blocks only with texts of the same
// salt. Without a salt the key is `root`.
BlockKey SaltedRoot(const BlockKey& root, std::string_view salt);

// Returns the key of the block of `tokens` (at most kBlockTokens) that follows the block `parent`.
BlockKey NextBlockKey(const BlockKey& parent, std::span<const Token> tokens);

}  // namespace fathom::kv_cache
