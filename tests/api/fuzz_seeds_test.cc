// Replays the seeds of the fuzz targets, and changes them at random as a fuzzer would.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/chat_request_check.h"
#include "fuzz/responses_request_check.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

struct Target {
  const char* name;
  std::string (*check)(std::string_view input);
};
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class RequestSeedsTest : public ::testing::TestWithParam<Target> {
 protected:
  static std::string Check(std::string_view input) { return GetParam().check(input); }

  static std::vector<std::string> Seeds() {
    std::vector<std::string> seeds;
    const std::string folder = std::string("fuzz/seeds/") + GetParam().name;
    for (const auto& entry : std::filesystem::directory_iterator(testing::ProjectPath(folder))) {
      seeds.push_back(testing::ReadFile(entry.path()));
    }
    return seeds;
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, RequestSeedsTest,
                         ::testing::Values(Target{"chat_request", fuzz::CheckChatRequest},
                                           Target{"responses_request",
                                                  fuzz::CheckResponsesRequest}));

TEST_P(RequestSeedsTest, Replay) {
  const std::vector<std::string> seeds = Seeds();
  EXPECT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    EXPECT_EQ(Check(seed), "") << seed.substr(0, 200);
  }
}

TEST_P(RequestSeedsTest, AnyBytes) {
  const bool passed = rc::check([](const std::string& bytes) { RC_ASSERT(Check(bytes) == ""); });
  EXPECT_TRUE(passed);
}

TEST_P(RequestSeedsTest, SeedsWithAPieceOfAnotherInThem) {
  const std::vector<std::string> seeds = Seeds();
  const bool passed = rc::check([&] {
    std::string text = *rc::gen::elementOf(seeds);
    const std::string other = *rc::gen::elementOf(seeds);
    const auto cut = [](const std::string& from) {
      return *rc::gen::inRange<std::size_t>(0, from.size() + 1);
    };
    const std::size_t begin = cut(other);
    const std::size_t length = *rc::gen::inRange<std::size_t>(0, 40);
    const std::size_t at = cut(text);
    text.replace(at, *rc::gen::inRange<std::size_t>(0, 20), other.substr(begin, length));
    RC_ASSERT(Check(text) == "");
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom
