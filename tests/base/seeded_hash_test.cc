// Keys that collide in the standard library do not collide here.
#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/json/colliding_keys.h"

namespace fathom {
namespace {

TEST(SeededHashTest, KeysChosenForTheStandardLibraryDiffer) {
  std::set<std::size_t> hashes;
  const std::vector<std::string> keys = testing::CollidingKeys::Make(10'000);
  for (const std::string& key : keys) hashes.insert(SeededHash()(key));
  EXPECT_EQ(hashes.size(), keys.size());
  EXPECT_EQ(SeededHash()(keys.front()), SeededHash()(std::string(keys.front())));
}

// A table of the standard library has a bucket for each remainder.
TEST(SeededHashTest, MultiplesOfANumberSpread) {
  constexpr std::uint64_t kBuckets = 12'289;
  std::set<std::size_t> buckets;
  for (std::uint64_t i = 0; i < 1000; ++i) buckets.insert(SeededHash()(i * kBuckets) % kBuckets);
  EXPECT_GT(buckets.size(), 900u);
}

}  // namespace
}  // namespace fathom
