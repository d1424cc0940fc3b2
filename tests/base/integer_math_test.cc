#include "base/integer_math.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace fathom {
namespace {

TEST(IntegerMathTest, NeverBelow) {
  for (const std::int64_t unit : {1, 3, 64}) {
    for (std::int64_t value = 0; value < 300; ++value) {
      const std::int64_t rounded = RoundUp(value, unit);
      EXPECT_EQ(rounded % unit, 0);
      EXPECT_GE(rounded, value);
      EXPECT_LT(rounded, value + unit);
      EXPECT_EQ(DivideUp(value, unit), rounded / unit);
    }
  }
}

}  // namespace
}  // namespace fathom
