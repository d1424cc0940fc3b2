// Both kinds of E4M3: all codes, and all numbers around them, against tables made from the formats'
// definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/float_types.h"
#include "tests/emulator/language.h"

#include "tests/kernels/device/fp8_kinds.h"

namespace fathom::kernels::gpu {
namespace {

struct CodeNumber {
  double number = 0;
  int code = 0;
};

// The numbers without a sign of a format with 4 bits of exponent and 3 of fraction, ascending.
std::vector<CodeNumber> Magnitudes(int bias, int n_codes) {
  std::vector<CodeNumber> numbers;
  for (int code = 0; code < n_codes; ++code) {
    const int exponent = code / 8;
    const double fraction = code % 8 / 8.0;
    numbers.push_back(
        {exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias),
         code});
  }
  return numbers;
}

// The code of the nearest magnitude, ties to the even code, found by looking at all of them.
int NearestCode(const std::vector<CodeNumber>& numbers, double magnitude) {
  const CodeNumber* best = &numbers.front();
  for (const CodeNumber& candidate : numbers) {
    const double distance = std::abs(candidate.number - magnitude);
    const double best_distance = std::abs(best->number - magnitude);
    if (distance < best_distance || (distance == best_distance && candidate.code % 2 == 0)) {
      best = &candidate;
    }
  }
  return best->code;
}

struct FnTable {
  using Kind = E4m3Fn;
  std::vector<CodeNumber> numbers = Magnitudes(/*bias=*/7, /*n_codes=*/127);
  int Code(float x) const {
    const int sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return sign | 0x7F;
    return sign | NearestCode(numbers, std::min(std::abs(double{x}), 448.0));
  }
  static bool IsNan(int code) { return code == 0x7F || code == 0xFF; }
};

struct FnuzTable {
  using Kind = E4m3Fnuz;
  std::vector<CodeNumber> numbers = Magnitudes(/*bias=*/8, /*n_codes=*/128);
  int Code(float x) const {
    if (std::isnan(x)) return 0x80;
    const int code = NearestCode(numbers, std::min(std::abs(double{x}), 240.0));
    return std::signbit(x) && code != 0 ? 0x80 | code : code;
  }
  static bool IsNan(int code) { return code == 0x80; }
};

template <class Table>
class Fp8Kinds : public ::testing::Test {
 protected:
  void ExpectCode(float x) const {
    ASSERT_EQ(FloatToFp8<typename Table::Kind>(x), table_.Code(x))
        << std::hex << std::bit_cast<std::uint32_t>(x);
  }
  void ExpectCodesAround(double number) const {
    const auto middle = static_cast<float>(number);
    ASSERT_EQ(middle, number);
    for (const float sign : {1.0f, -1.0f}) {
      ExpectCode(sign * middle);
      ExpectCode(sign * std::nextafter(middle, 0.0f));
      ExpectCode(sign * std::nextafter(middle, INFINITY));
    }
  }
  Table table_;
};
using Tables = ::testing::Types<FnTable, FnuzTable>;
TYPED_TEST_SUITE(Fp8Kinds, Tables);

TYPED_TEST(Fp8Kinds, EveryCodeIsItsNumber) {
  const auto& numbers = this->table_.numbers;
  for (int code = 0; code < 256; ++code) {
    const float found = Fp8ToFloat<typename TypeParam::Kind>(static_cast<std::uint32_t>(code));
    if (TypeParam::IsNan(code)) {
      EXPECT_TRUE(std::isnan(found)) << code;
      continue;
    }
    const double magnitude = numbers[static_cast<std::size_t>(code & 0x7F)].number;
    EXPECT_EQ(found, code < 128 ? magnitude : -magnitude) << code;
    EXPECT_EQ(std::signbit(found), code >= 128) << code;
    EXPECT_EQ(FloatToFp8<typename TypeParam::Kind>(found), code);
  }
}

TYPED_TEST(Fp8Kinds, NumbersAtAndBetweenCodesAreRoundedToTheNearest) {
  const auto& numbers = this->table_.numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    this->ExpectCodesAround(numbers[i].number);
    if (i > 0) {
      this->ExpectCodesAround((numbers[i - 1].number + numbers[i].number) / 2);
    }
  }
}

TYPED_TEST(Fp8Kinds, EveryBf16HasItsCode) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    this->ExpectCode(ToFloat(Bf16{static_cast<std::uint16_t>(bits)}));
  }
}

TYPED_TEST(Fp8Kinds, SaturatesAndKeepsNan) {
  for (const float x : {INFINITY, -INFINITY, 1e30f, 448.0f, 449.0f, 464.0f, 480.0f, -1e-45f, 1e-45f,
                        240.0f, 247.0f, 248.0f, 249.0f, NAN, -NAN}) {
    this->ExpectCode(x);
  }
}

TEST(Fp8KindsTogether, FnIsTheFormatOfTheCpu) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = ToFloat(Bf16{static_cast<std::uint16_t>(bits)});
    ASSERT_EQ(FloatToFp8<E4m3Fn>(x), FloatToE4m3(x)) << bits;
  }
  for (std::uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(Fp8ToFloat<E4m3Fn>(code)),
              std::bit_cast<std::uint32_t>(E4m3ToFloat(static_cast<std::uint8_t>(code))));
  }
}

// A matrix unit of FNUZ reads a code of FN as half its number, so that a doubled scale gives the
// product.
TEST(Fp8KindsTogether, FnReadAsFnuzIsHalfTheNumber) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float number = Fp8ToFloat<E4m3Fn>(code);
    const float half = Fp8ToFloat<E4m3Fnuz>(FnToHalfFnuz(static_cast<std::uint8_t>(code)));
    EXPECT_EQ(std::isnan(half), std::isnan(number)) << code;
    if (!std::isnan(number)) {
      EXPECT_EQ(2.0f * half, number) << code;
    }
  }
}

}  // namespace
}  // namespace fathom::kernels::gpu
