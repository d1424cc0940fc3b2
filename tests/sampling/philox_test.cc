#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace fathom::sampling {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known-answer vectors its authors published.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0}, {0, 0, 0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfKeyAndCounterMatters) {
  std::set<Block> blocks = {Philox({0, 0}, {0, 0, 0, 0})};
  for (std::size_t i = 0; i < 2; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      PhiloxKey key = {0, 0};
      key[i] = 1u << bit;
      blocks.insert(Philox(key, {0, 0, 0, 0}));
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      PhiloxCounter counter = {0, 0, 0, 0};
      counter[i] = 1u << bit;
      blocks.insert(Philox({0, 0}, counter));
    }
  }
  EXPECT_EQ(blocks.size(), 1u + 6 * 32);
}

}  // namespace
}  // namespace fathom::sampling
