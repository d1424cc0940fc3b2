// Keys are the names of files: they may never change.
#include "kv_cache/block_key.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace fathom::kv_cache {
namespace {

std::string Hex(const BlockKey& key) {
  std::string text;
  for (const std::uint8_t byte : key.bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// The output of `xxhsum -H2`.
TEST(BlockKey, IsXxh3Of128Bits) {
  EXPECT_EQ(Hex(HashBytes({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Hex(HashBytes(Bytes("abc"))), "06b05ab6733a618578af5f94892f3950");
}

TEST(BlockKey, OfTheParentAndTheTokens) {
  const BlockKey parent = HashBytes({});
  const std::vector<Token> tokens = {1, 258, -1};
  std::string bytes(reinterpret_cast<const char*>(parent.bytes.data()), parent.bytes.size());
  bytes += std::string("\1\0\0\0\2\1\0\0\xff\xff\xff\xff", 12);
  EXPECT_EQ(NextBlockKey(parent, tokens), HashBytes(Bytes(bytes)));
}

TEST(BlockKey, DiffersWhereAnythingDiffers) {
  std::vector<Token> tokens(128, 5);
  std::set<BlockKey> keys;
  BlockKey key = HashBytes({});
  for (int i = 0; i < 100; ++i) {  // equal tokens, other parents
    key = NextBlockKey(key, tokens);
    EXPECT_TRUE(keys.insert(key).second);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ++tokens[i];
    EXPECT_TRUE(keys.insert(NextBlockKey(key, tokens)).second);
    EXPECT_TRUE(keys.insert(NextBlockKey(key, std::span(tokens).first(i))).second);
  }
}

TEST(BlockKeyDeathTest, ABlockHasAtMost128Tokens) {
  const std::vector<Token> tokens(129);
  EXPECT_DEATH(NextBlockKey({}, tokens), "more tokens than in a block");
}

}  // namespace
}  // namespace fathom::kv_cache
