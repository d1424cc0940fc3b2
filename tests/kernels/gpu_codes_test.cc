// The codes of the device sources, all of them: the numbers of base/float_types.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/float_types.h"
#include "tests/emulator/language.h"

#include "kernels/gpu/device/codes.h"
#include "kernels/gpu/device/quantize.h"

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
