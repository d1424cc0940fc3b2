// Replays the seeds of the fuzz target, and changes them at random as a fuzzer would.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "fuzz/chat_request_check.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectPath("fuzz/seeds/chat_request"))) {
    seeds.push_back(testing::ReadFile(entry.path()));
  }
  return seeds;
}

TEST(ChatRequestSeedsTest, Replay) {
  const std::vector<std::string> seeds = Seeds();
  EXPECT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    EXPECT_EQ(fuzz::CheckChatRequest(seed), "") << seed.substr(0, 200);
  }
}

TEST(ChatRequestSeedsTest, AnyBytes) {
  const bool passed =
      rc::check([](const std::string& bytes) { RC_ASSERT(fuzz::CheckChatRequest(bytes) == ""); });
  EXPECT_TRUE(passed);
}

TEST(ChatRequestSeedsTest, SeedsWithAPieceOfAnotherInThem) {
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
    RC_ASSERT(fuzz::CheckChatRequest(text) == "");
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom
