#include "kv_cache/block_key.h"

#include <xxhash.h>

#include <bit>
#include <string>

#include "base/check.h"
#include "kv_cache/layout.h"

namespace fathom::kv_cache {

BlockKey HashBytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  BlockKey key;
  static_assert(sizeof(canonical.digest) == sizeof(key.bytes));
  std::memcpy(key.bytes.data(), canonical.digest, sizeof(canonical.digest));
  return key;
}

BlockKey SaltedRoot(const BlockKey& root, std::string_view salt) {
  if (salt.empty()) return root;
  std::string bytes(root.bytes.begin(), root.bytes.end());
  return HashBytes(std::as_bytes(std::span(bytes.append(salt))));
}

BlockKey NextBlockKey(const BlockKey& parent, std::span<const Token> tokens) {
  static_assert(std::endian::native == std::endian::little, "tokens are hashed as they lie");
  std::array<std::byte, sizeof(parent.bytes) + kBlockTokens * sizeof(Token)> bytes;
  Check(tokens.size_bytes() <= bytes.size() - sizeof(parent.bytes), "more tokens than in a block");
  std::memcpy(bytes.data(), parent.bytes.data(), sizeof(parent.bytes));
  if (!tokens.empty()) {
    std::memcpy(bytes.data() + sizeof(parent.bytes), tokens.data(), tokens.size_bytes());
  }
  return HashBytes(std::span(bytes).first(sizeof(parent.bytes) + tokens.size_bytes()));
}

}  // namespace fathom::kv_cache
