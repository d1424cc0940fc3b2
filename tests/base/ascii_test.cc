#include "base/ascii.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Ascii, LettersHaveNoCase) {
  EXPECT_EQ(LowerCase("Host-Z[@`{É"), "host-z[@`{É");
  EXPECT_TRUE(EqualsWithoutCase("HTTPS://", "https://"));
  EXPECT_FALSE(EqualsWithoutCase("@", "`"));
  EXPECT_FALSE(EqualsWithoutCase("a", "ab"));
  std::string_view text = "BEARER key";
  EXPECT_TRUE(TakePrefixWithoutCase(text, "Bearer "));
  EXPECT_EQ(text, "key");
  EXPECT_FALSE(TakePrefixWithoutCase(text, "keys"));
  EXPECT_EQ(text, "key");
}

}  // namespace
}  // namespace fathom
