#include "base/parse_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace fathom {
namespace {

TEST(ParseText, NumberIsTakenFromTheFront) {
  std::string_view text = "12:-7";
  EXPECT_EQ(TakeNumber<int>(text), 12);
  EXPECT_TRUE(TakePrefix(text, ":"));
  EXPECT_EQ(TakeNumber<int>(text), -7);
  EXPECT_EQ(text, "");
}

TEST(ParseText, TextStaysWhereNothingIsTaken) {
  std::string_view text = "x1";
  EXPECT_EQ(TakeNumber<int>(text), std::nullopt);
  EXPECT_FALSE(TakePrefix(text, "x2"));
  EXPECT_EQ(text, "x1");
  std::string_view large = "300";
  EXPECT_EQ(TakeNumber<std::uint8_t>(large), std::nullopt);
  EXPECT_EQ(large, "300");
}

TEST(ParseText, WholeTextMustBeANumber) {
  EXPECT_EQ(ParseNumber<int>("42"), 42);
  EXPECT_EQ(ParseNumber<double>("-2.5e3"), -2500);
  for (const char* text : {"", " 42", "42 ", "4x", "+4"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseNumber<unsigned>("-1"), std::nullopt);
  EXPECT_EQ(ParseNumber<double>("1e400"), std::nullopt);
}

}  // namespace
}  // namespace fathom
