// Replays the seeds of the fuzz target, and changes them at random as a fuzzer would.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/http_request_check.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectPath("fuzz/seeds/http_request"))) {
    seeds.push_back(testing::ReadFile(entry.path()));
  }
  return seeds;
}

TEST(HttpRequestSeedsTest, Replay) {
  const std::vector<std::string> seeds = Seeds();
  EXPECT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) EXPECT_EQ(fuzz::CheckHttpRequest(seed), "") << seed;
}

TEST(HttpRequestSeedsTest, SeedsWithAPieceOfAnotherInThem) {
  const std::vector<std::string> seeds = Seeds();
  const bool passed = rc::check([&] {
    std::string text = *rc::gen::elementOf(seeds) + *rc::gen::elementOf(seeds);
    const std::string other = *rc::gen::elementOf(seeds);
    const auto cut = [](const std::string& from) {
      return *rc::gen::inRange<std::size_t>(0, from.size() + 1);
    };
    const std::size_t begin = cut(other);
    const std::size_t length = *rc::gen::inRange<std::size_t>(0, 40);
    const std::size_t at = cut(text);
    text.replace(at, *rc::gen::inRange<std::size_t>(0, 20), other.substr(begin, length));
    RC_ASSERT(fuzz::CheckHttpRequest(text) == "");
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom
