// The codes of the device sources, all of them: the numbers of base/float_types.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/float_types.h"
#include "tests/emulator/language.h"

#include "kernels/gpu/device/codes.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/widen.h"

namespace fathom::kernels::gpu {
namespace {

TEST(GpuCodes, IntegersAreTheNumbersOfE4m3) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float number = E4m3ToFloat(static_cast<std::uint8_t>(code));
    if (!std::isnan(number)) {
      EXPECT_EQ(static_cast<float>(E4m3Integer(code)) * 0x1p-9f, number) << code;
    }
  }
}

TEST(GpuCodes, IntegersAreTheNumbersOfE2m1) {
  for (std::uint32_t code = 0; code < 16; ++code) {
    EXPECT_EQ(static_cast<float>(E2m1Integer(code)) * 0.5f,
              E2m1ToFloat(static_cast<std::uint8_t>(code)))
        << code;
  }
}

TEST(GpuCodes, ShiftedE4m3IsTheNumberTimesAPower) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float number = E4m3ToFloat(static_cast<std::uint8_t>(code));
    for (int i = 0; i < 4 && !std::isnan(number); ++i) {
      const std::uint32_t others = 0xA57E9133u & ~(0xFFu << (8 * i));
      const float shifted = ShiftE4m3(others | code << (8 * i), i);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(shifted * 0x1p120f),
                std::bit_cast<std::uint32_t>(number))
          << code << " " << i;
    }
  }
}

TEST(GpuCodes, DigitsAddUpToTheIntegers) {
  for (int code = 0; code < 256; ++code) {
    std::uint8_t codes[8];
    std::int64_t sum = 0;
    for (int j = 0; j < 8; ++j) {
      codes[j] = static_cast<std::uint8_t>(code + 37 * j);
      sum += E4m3Integer(codes[j]);
    }
    const LaneDigits digits = MakeDigits(codes);
    for (int j = 0; j < 8; ++j) {
      std::int32_t integer = 0;
      for (int i = 2; i >= 0; --i) {
        const auto digit = static_cast<std::int8_t>(digits.words[2 * i + j / 4] >> (8 * (j % 4)));
        integer = 256 * integer + digit;
      }
      EXPECT_EQ(integer, E4m3Integer(codes[j])) << code << " " << j;
    }
    EXPECT_EQ(static_cast<std::int32_t>(digits.words[6]), -64 * sum) << code;
  }
}

// Every bf16 number, with the scale of a group whose largest number it is, and with larger ones.
TEST(GpuCodes, OfEveryNumber) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Bf16 x = {static_cast<std::uint16_t>(bits)};
    const bool is_nan = std::isnan(ToFloat(x));
    EXPECT_EQ(Magnitude(x), is_nan ? 0 : static_cast<std::int32_t>(bits & 0x7FFF));
    for (const std::int32_t more : {0, 1, 0x80, 0x200, 0x400, 0x600}) {
      const std::int32_t largest = std::min(Magnitude(x) + more, 0x7F80);
      const float scale = PowerOfTwoScale(ToFloat(Bf16{static_cast<std::uint16_t>(largest)}),
                                          kE4m3Floor, kE4m3Maximum);
      ASSERT_EQ(E4m3Scale(largest), scale);
      const float inverse = 1.0f / scale;
      ASSERT_EQ(E4m3Code(x, inverse), FloatToE4m3(ToFloat(x) * inverse)) << bits << " " << more;
      if (scale < INFINITY) {
        ASSERT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(ExponentByte(scale)) << 23),
                  scale);
      }
    }
  }
}

}  // namespace
}  // namespace fathom::kernels::gpu
