// The list against one that is a vector.
#include "kv_cache/lru_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace fathom::kv_cache {
namespace {

std::vector<std::int32_t> Items(const LruList& list) {
  std::vector<std::int32_t> items;
  for (std::int32_t i = list.oldest(); i != LruList::kNone; i = list.After(i)) {
    items.push_back(i);
  }
  return items;
}

TEST(LruList, OldestFirst) {
  LruList list;
  EXPECT_EQ(list.oldest(), LruList::kNone);
  EXPECT_FALSE(list.Contains(0));
  for (const std::int32_t item : {3, 0, 7}) {
    list.Touch(item);
  }
  EXPECT_EQ(Items(list), (std::vector<std::int32_t>{3, 0, 7}));
  list.Touch(3);
  EXPECT_EQ(Items(list), (std::vector<std::int32_t>{0, 7, 3}));
  list.Touch(3);
  EXPECT_EQ(Items(list), (std::vector<std::int32_t>{0, 7, 3}));
  list.Remove(7);
  list.Remove(7);
  list.Remove(100);
  EXPECT_EQ(Items(list), (std::vector<std::int32_t>{0, 3}));
}

TEST(LruList, AgreesWithAVector) {
  LruList list;
  std::vector<std::int32_t> expected;
  std::mt19937 random(1);
  for (int step = 0; step < 5'000; ++step) {
    const auto item = static_cast<std::int32_t>(random() % (1 + static_cast<unsigned>(step) % 40));
    std::erase(expected, item);
    if (random() % 3 == 0) {
      list.Remove(item);
    } else {
      list.Touch(item);
      expected.push_back(item);
    }
    ASSERT_EQ(Items(list), expected);
    ASSERT_EQ(list.Contains(item), !expected.empty() && expected.back() == item);
  }
}

}  // namespace
}  // namespace fathom::kv_cache
