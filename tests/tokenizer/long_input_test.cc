// A megabyte of what hostile prompts are made of. Every case takes a fraction of a second; an
// algorithm of quadratic time would take hours, so the bound can be generous.
#include <gtest/gtest.h>

#include <span>
#include <string_view>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {
namespace {

constexpr std::size_t kBytes = 1'000'000;
// One kind of piece each: runs of blanks, letters, digits, marks, symbols, ideographs; characters
// that no pattern takes; beginnings of added tokens.
constexpr std::string_view kUnits[] = {" ",
                                       "\n",
                                       "\t\n ",
                                       "\u00A0",
                                       "a",
                                       "1",
                                       "!",
                                       "<",
                                       "<\uFF5Cplace\u2581holder\u2581no\u2581",
                                       "\x01",
                                       "\u0301",
                                       " \u0301",
                                       "\u4E2D",
                                       "\u30A2\u30FB",
                                       "\u200D",
                                       "\U0001F600",
                                       " .",
                                       "aB3\u4E2D "};
// Processor seconds, so that a busy machine does not matter; sanitizers need less than this, too.
constexpr double kBound = 20;

void ExpectLinear(const Tokenizer& tokenizer, std::span<const std::string_view> units) {
  for (const std::string_view unit : units) {
    const bool is_blank = unit == " " || unit == "\n" || unit == "\u00A0";
    for (const std::string_view end : {"", "x"}) {
      if (!end.empty() && !is_blank) {
        continue;  // what ends a run matters to the look-ahead after blanks only
      }
      const std::string text = testing::Repeat(unit, kBytes) + std::string(end);
      const std::clock_t start = std::clock();
      const auto tokens = tokenizer.Encode(text, SpecialTokens::kParse);
      EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kBound) << unit;
      ASSERT_TRUE(tokens) << tokens.error().message;
      EXPECT_TRUE(tokenizer.Decode(*tokens) == text) << unit;
    }
  }
}

TEST(LongInput, OfficialTokenizer) {
  const auto path = testing::SharedData(testing::kOfficialTokenizer);
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  ExpectLinear(testing::LoadTokenizer(*path), kUnits);
}

TEST(LongInput, FairyTokenizer) {
  constexpr std::string_view kRuns[] = {" ", "\n", "a", "\u4E2D", "\u0301"};
  ExpectLinear(testing::LoadTokenizer(testing::ProjectPath(testing::kFairyTokenizer)), kRuns);
}

TEST(LongInput, EndsEarlyWhenToldTo) {
  const Tokenizer tokenizer =
      testing::LoadTokenizer(testing::ProjectPath(testing::kFairyTokenizer));
  // Many pieces, and one.
  for (const std::string_view unit : {"Once upon a time ", "once"}) {
    const std::string text = testing::Repeat(unit, kBytes);
    int n_asked = 0;
    const auto all = tokenizer.Encode(text, SpecialTokens::kParse, [&] {
      ++n_asked;
      return false;
    });
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_GT(n_asked, 4) << unit;
    for (const int n_until_stop : {1, n_asked}) {
      int n_left = n_until_stop;
      const auto part =
          tokenizer.Encode(text, SpecialTokens::kParse, [&] { return --n_left == 0; });
      ASSERT_FALSE(part);
      EXPECT_EQ(part.error().code, ErrorCode::kUnavailable);
      EXPECT_EQ(n_left, 0) << unit;
    }
  }
}

}  // namespace
}  // namespace fathom::tokenizer
