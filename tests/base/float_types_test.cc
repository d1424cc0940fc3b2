#include "base/float_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace fathom {
namespace {

TEST(FloatTypes, Bf16RoundsToNearestEven) {
  EXPECT_EQ(ToBf16(1.0f).bits, 0x3F80);
  EXPECT_EQ(ToBf16(1.00390625f).bits, 0x3F80);  // halfway, down to even
  EXPECT_EQ(ToBf16(1.01171875f).bits, 0x3F82);  // halfway, up to even
  EXPECT_EQ(ToBf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::infinity()).bits, 0x7F80);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(FloatTypes, E4m3RoundTripsEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3ToFloat(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_EQ(FloatToE4m3(value), code);
    EXPECT_EQ(RoundToBf16(value), value) << "every E4M3 value is a bfloat16";
  }
  EXPECT_EQ(E4m3ToFloat(0x38), 1.0f);
  EXPECT_EQ(E4m3ToFloat(0x07), 0.013671875f);
  EXPECT_EQ(E4m3ToFloat(0x7E), 448.0f);
}

TEST(FloatTypes, E4m3RoundsHalfwayToEvenBetweenAllNeighbours) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = E4m3ToFloat(static_cast<std::uint8_t>(code));
    const float high = E4m3ToFloat(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(FloatToE4m3(middle), (code & 1) == 0 ? code : code + 1);
    EXPECT_EQ(FloatToE4m3(std::nextafterf(middle, 0.0f)), code);
    EXPECT_EQ(FloatToE4m3(std::nextafterf(middle, 1000.0f)), code + 1);
    EXPECT_EQ(FloatToE4m3(-middle), 0x80 | FloatToE4m3(middle));
  }
  EXPECT_EQ(FloatToE4m3(1e30f), 0x7E);
}

// The definition, number by number.
float PlainE4m3ToFloat(int code) {
  const float sign = code < 0x80 ? 1.0f : -1.0f;
  const int exponent = (code >> 3) & 15;
  const auto mantissa = static_cast<float>(code & 7);
  if ((code & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
}

// The nearest code, of two the even one.
int PlainFloatToE4m3(float x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return sign | 0x7F;
  const float magnitude = std::min(std::fabs(x), 448.0f);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -6, -6);
  const auto n = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return sign | (n + ((exponent + 6) << 3));  // 16, of the next exponent, carries
}

void ExpectPlainCode(float x) {
  ASSERT_EQ(FloatToE4m3(x), PlainFloatToE4m3(x)) << std::hexfloat << x;
}

TEST(FloatTypes, E4m3IsItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3ToFloat(static_cast<std::uint8_t>(code));
    const float plain = PlainE4m3ToFloat(code);
    ASSERT_EQ(std::isnan(value), std::isnan(plain));
    if (!std::isnan(plain)) {
      ASSERT_EQ(value, plain) << code;
    }
    ASSERT_EQ(std::signbit(value), code >= 0x80);
  }
  const auto expect_around = [](float boundary) {
    const auto middle = std::bit_cast<std::uint32_t>(boundary);
    for (std::uint32_t i = 0; i <= 4000; ++i) {
      const std::uint32_t bits = std::max(middle, 2000u) + i - 2000u;
      ExpectPlainCode(std::bit_cast<float>(bits));
      ExpectPlainCode(std::bit_cast<float>(bits | 0x80000000u));
    }
  };
  for (int code = 0; code < 0x7E; ++code) {
    expect_around(PlainE4m3ToFloat(code));
    expect_around((PlainE4m3ToFloat(code) + PlainE4m3ToFloat(code + 1)) / 2);
  }
  expect_around(448.0f);
  expect_around(std::numeric_limits<float>::infinity());  // NaN from there on
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 997) {
    ExpectPlainCode(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  ExpectPlainCode(std::bit_cast<float>(0xFFFFFFFFu));
}

TEST(FloatTypes, E2m1TiesGoToTheEvenCode) {
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(FloatToE2m1(E2m1ToFloat(static_cast<std::uint8_t>(code))), code);
  }
  const std::array<std::array<float, 2>, 7> ties = {{{0.25f, 0.0f},
                                                     {0.75f, 1.0f},
                                                     {1.25f, 1.0f},
                                                     {1.75f, 2.0f},
                                                     {2.5f, 2.0f},
                                                     {3.5f, 4.0f},
                                                     {5.0f, 4.0f}}};
  for (const auto& [value, expected] : ties) {
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(value)), expected) << value;
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(-value)), -expected) << value;
  }
  EXPECT_EQ(E2m1ToFloat(FloatToE2m1(100.0f)), 6.0f);
}

TEST(FloatTypes, E8m0BytesAreExponents) {
  EXPECT_EQ(E8m0ToFloat(127), 1.0f);
  EXPECT_EQ(E8m0ToFloat(0), 0x1p-127f);
  EXPECT_EQ(E8m0ToFloat(1), 0x1p-126f);
  EXPECT_EQ(E8m0ToFloat(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(E8m0ToFloat(255)));
}

// The group of docs/spec/quantization.md 2.
TEST(FloatTypes, GroupOfTheSpecification) {
  const std::array<float, 8> input = {0, 0.013f, -0.27f, 1, 3.3f, -7.7f, 0.0009f, 2.05f};
  const std::array<int, 8> fp8 = {0x00, 0x2d, 0xd1, 0x60, 0x6d, 0xf7, 0x0f, 0x68};
  const std::array<int, 8> fp4 = {0, 0, 8, 1, 3, 0xe, 0, 2};
  const float scale8 = PowerOfTwoScale(7.6875f, kE4m3Floor, kE4m3Maximum);
  const float scale4 = PowerOfTwoScale(7.6875f, kE2m1Floor, kE2m1Maximum);
  EXPECT_EQ(scale8, 0x1p-5f);
  EXPECT_EQ(scale4, 2.0f);
  for (std::size_t i = 0; i < input.size(); ++i) {
    const float x = RoundToBf16(input[i]);
    EXPECT_EQ(FloatToE4m3(x / scale8), fp8[i]) << input[i];
    EXPECT_EQ(FloatToE2m1(x / scale4), fp4[i]) << input[i];
  }
  EXPECT_EQ(PowerOfTwoScale(0.0f, kE4m3Floor, kE4m3Maximum), 0x1p-22f);
  EXPECT_EQ(PowerOfTwoScale(0.0f, kE2m1Floor, kE2m1Maximum), 0x1p-126f);
}

}  // namespace
}  // namespace fathom
