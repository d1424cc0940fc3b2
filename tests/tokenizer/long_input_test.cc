// A megabyte of what hostile prompts are made of. Every case takes a fraction of a second; an
// algorithm of quadratic time would take hours, so the bound can be generous.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

constexpr std::size_t kBytes = 1'000'000;
constexpr std::chrono::seconds kBound(20);  // far above any machine and sanitizer

void ExpectLinear(const Tokenizer& tokenizer) {
  for (const std::string_view unit : {" ",
                                      "\n",
                                      "\t",
                                      "\r\n",
                                      " \n",
                                      "\t\n ",
                                      "a",
                                      "1",
                                      "!",
                                      "<",
                                      ".",
                                      "\x01",
                                      "\u00A0",
                                      "\u0301",
                                      " \u0301",
                                      "\u4E2D",
                                      "\u4E2D\u6587",
                                      "\u30A2\u30FB",
                                      "\u3099",
                                      "\u200D",
                                      "\u2028",
                                      "\uFF5C",
                                      "<\uFF5C",
                                      "<\uFF5Cplace\u2581holder\u2581no\u2581",
                                      "<a",
                                      "a1",
                                      " .",
                                      "\u0E01\u0E31",
                                      "\U0001F600",
                                      "\U0001F468\u200D",
                                      "\u0378",
                                      "aB3\u4E2D ",
                                      "QUJD"}) {
    for (const std::string_view end : {"", "x", "\n", "1"}) {
      const std::string text = testing::Repeat(unit, kBytes) + std::string(end);
      const auto start = std::chrono::steady_clock::now();
      const auto tokens = tokenizer.Encode(text, SpecialTokens::kParse);
      EXPECT_LT(std::chrono::steady_clock::now() - start, kBound) << unit;
      ASSERT_TRUE(tokens) << tokens.error().message;
      EXPECT_TRUE(tokenizer.Decode(*tokens) == text) << unit;
      if (unit.size() > 1) {
        break;  // the ends matter for runs of one character
      }
    }
  }
}

TEST(LongInput, OfficialTokenizer) {
  const auto path = testing::SharedData(testing::kOfficialTokenizer);
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  ExpectLinear(testing::LoadTokenizer(*path));
}

TEST(LongInput, FairyTokenizer) {
  ExpectLinear(testing::LoadTokenizer(testing::ProjectPath(testing::kFairyTokenizer)));
}

}  // namespace
}  // namespace fathom
