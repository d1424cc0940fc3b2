// Objects whose keys were chosen to make a table slow.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "json/json_value.h"
#include "json/json_writer.h"
#include "tests/json/colliding_keys.h"

namespace fathom::json {
namespace {

constexpr std::size_t kKeys = 40'000;

std::string MakeObject(const std::vector<std::string>& keys) {
  std::string text = "{";
  for (const std::string& key : keys) {
    text += (text.size() == 1 ? "" : ",") + PythonJsonString(key) + ":1";
  }
  return text + "}";
}

double SecondsToParse(const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(ParseJson(text));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(HostileKeys, CollideInTheStandardLibrary) {
  const std::vector<std::string> keys = testing::CollidingKeys::Make(1'000);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
  std::set<std::size_t> hashes;
  for (const std::string& key : keys) hashes.insert(std::hash<std::string>()(key));
  EXPECT_EQ(hashes.size(), 1u) << "the test of their time shows nothing";
}

// Quadratic time was 60 times as long.
TEST(HostileKeys, TakeNoLongerThanOthers) {
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < kKeys; ++i) plain.push_back(std::string(26, 'k') + std::to_string(i));
  const double usual = SecondsToParse(MakeObject(plain));
  const double hostile = SecondsToParse(MakeObject(testing::CollidingKeys::Make(kKeys)));
  EXPECT_LT(hostile, std::max(0.3, 10 * usual));
}

TEST(HostileKeys, UpdateTakesNoLongerThanOthers) {
  JsonValue target = {{"last", 0}};
  const Result<JsonValue> members = ParseJson(MakeObject(testing::CollidingKeys::Make(kKeys)));
  ASSERT_TRUE(members);
  const auto begin = std::chrono::steady_clock::now();
  target.Update(*members);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(target.items().size(), kKeys + 1);
  EXPECT_LT(taken.count(), 1);
}

// Python keeps a repeated key at its first place with its last value.
TEST(HostileKeys, RepeatedKeysAreMergedInObjectsOfAnySize) {
  for (const int n_keys : {1, 2, 3, 15, 16, 17, 18, 100}) {
    std::string text = "{";
    std::string expected = "{";
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < n_keys; ++i) {
        const std::string key = fmt::format("\"a key that is not short {}\": ", i * 7 % n_keys);
        text += fmt::format("{}{}{}", text.size() == 1 ? "" : ", ", key, round);
      }
    }
    std::set<int> seen;
    for (int i = 0; i < n_keys; ++i) {
      if (!seen.insert(i * 7 % n_keys).second) continue;
      expected += fmt::format("{}\"a key that is not short {}\": 2",
                              expected.size() == 1 ? "" : ", ", i * 7 % n_keys);
    }
    const Result<JsonValue> value = ParseJson(text + "}");
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(PythonJson(*value), expected + "}");
  }
}

}  // namespace
}  // namespace fathom::json
