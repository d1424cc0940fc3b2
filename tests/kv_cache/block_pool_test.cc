// Taking, sharing and returning blocks: against a plain count of uses, at random.
#include "kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace fathom {
namespace {

TEST(BlockPool, EveryBlockOnceThenNone) {
  BlockPool pool(5);
  EXPECT_EQ(pool.n_blocks(), 5);
  std::set<std::int32_t> taken;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(pool.n_free(), 5 - i);
    const std::optional<std::int32_t> block = pool.Take();
    ASSERT_TRUE(block);
    EXPECT_EQ(pool.uses(*block), 1);
    taken.insert(*block);
  }
  EXPECT_EQ(taken, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(pool.Take());
  pool.Return(3);
  EXPECT_EQ(pool.Take(), 3);
}

TEST(BlockPool, OfNothing) {
  BlockPool pool(0);
  EXPECT_EQ(pool.n_free(), 0);
  EXPECT_FALSE(pool.Take());
}

TEST(BlockPool, CountsUses) {
  std::mt19937 random(1);
  BlockPool pool(20);
  std::vector<std::int32_t> uses;  // a block once for each of its uses
  for (int step = 0; step < 20'000; ++step) {
    const auto any = [&] { return uses[random() % uses.size()]; };
    switch (uses.empty() ? 0 : random() % 3) {
      case 0:
        if (const std::optional<std::int32_t> block = pool.Take()) {
          ASSERT_EQ(std::count(uses.begin(), uses.end(), *block), 0);
          uses.push_back(*block);
        } else {
          ASSERT_EQ(std::set<std::int32_t>(uses.begin(), uses.end()).size(), 20u);
        }
        break;
      case 1:
        if (uses.size() < 60) {
          uses.push_back(any());
          pool.Share(uses.back());
        }
        break;
      default:
        const std::int32_t block = any();
        uses.erase(std::find(uses.begin(), uses.end(), block));
        pool.Return(block);
    }
    for (std::int32_t block = 0; block < 20; ++block) {
      ASSERT_EQ(pool.uses(block), std::count(uses.begin(), uses.end(), block));
    }
    ASSERT_EQ(pool.n_free(), 20 - std::ssize(std::set<std::int32_t>(uses.begin(), uses.end())));
  }
}

TEST(BlockPoolDeathTest, AFreeBlockCannotBeReturnedOrShared) {
  BlockPool pool(2);
  const std::int32_t block = pool.Take().value();
  pool.Return(block);
  EXPECT_DEATH(pool.Return(block), "returning a block that is not in use");
  EXPECT_DEATH(pool.Share(block), "sharing a block that is not in use");
  EXPECT_DEATH(pool.Return(2), "returning a block that is not in use");
}

}  // namespace
}  // namespace fathom
