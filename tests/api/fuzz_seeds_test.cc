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

// What the list of tests calls it.
std::ostream& operator<<(std::ostream& out, const Target& target) { return out << target.name; }

class FuzzSeedsTest : public ::testing::TestWithParam<Target> {
 protected:
  std::vector<std::string> Seeds() const {
    std::vector<std::string> seeds;
    const std::string folder = std::string("fuzz/seeds/") + GetParam().name;
    for (const auto& entry : std::filesystem::directory_iterator(testing::ProjectPath(folder))) {
      seeds.push_back(testing::ReadFile(entry.path()));
    }
    return seeds;
  }
  std::string Check(const std::string& input) const { return GetParam().check(input); }
};

TEST_P(FuzzSeedsTest, Replay) {
  const std::vector<std::string> seeds = Seeds();
  EXPECT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    EXPECT_EQ(Check(seed), "") << seed.substr(0, 200);
  }
}

TEST_P(FuzzSeedsTest, AnyBytes) {
  const bool passed =
      rc::check([this](const std::string& bytes) { RC_ASSERT(Check(bytes) == ""); });
  EXPECT_TRUE(passed);
}

TEST_P(FuzzSeedsTest, SeedsWithAPieceOfAnotherInThem) {
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

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest,
                         ::testing::Values(Target{"chat_request", fuzz::CheckChatRequest},
                                           Target{"messages_request", fuzz::CheckMessagesRequest},
                                           Target{"responses_request",
                                                  fuzz::CheckResponsesRequest}),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace fathom
