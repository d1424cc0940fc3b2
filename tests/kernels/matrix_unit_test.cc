// The arithmetic of matrix units, against fused sums written with doubles and 128-bit integers, and
// against numbers whose result follows from the definition.
#include "tests/emulator/matrix_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tests/emulator/language.h"

#include "tests/kernels/device/fp8_kinds.h"

namespace fathom::kernels::emulator {
namespace {

using Wide = __int128;

struct OperandFormat {
  MatrixFormat format;
  int fraction_bits;
  int smallest_exponent;
};
constexpr OperandFormat kF16Operand = {MatrixFormat::kF16, 10, -14};
constexpr OperandFormat kBf16Operand = {MatrixFormat::kBf16, 7, -126};
constexpr OperandFormat kE4m3Operand = {MatrixFormat::kE4m3, 3, -6};

struct UnitCase {
  MatrixUnit unit;
  OperandFormat operand;
};
const UnitCase kCases[] = {{kSm80Mma, kF16Operand},       {kSm80Mma, kBf16Operand},
                           {kSm90Mma, kF16Operand},       {kSm90Mma, kBf16Operand},
                           {kSm90WgmmaFp8, kE4m3Operand}, {kSm100Fp8, kE4m3Operand},
                           {kGfx942Mfma, kF16Operand}};

int Bits(const OperandFormat& format) { return format.format == MatrixFormat::kE4m3 ? 8 : 16; }

// The number of a code, by the definition of its format.
double ToNumber(const OperandFormat& format, std::uint32_t bits) {
  if (format.format == MatrixFormat::kE4m3) return gpu::Fp8ToFloat<gpu::E4m3Fn>(bits);
  if (format.format == MatrixFormat::kBf16) return std::bit_cast<float>(bits << 16);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = (bits & 1023) / 1024.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(exponent == 0 ? fraction : 1 + fraction, std::max(exponent, 1) - 15);
}

int FindExponent(double number, int smallest) {
  return number == 0 ? smallest : std::max(std::ilogb(number), smallest);
}

// sum * 2^exponent in fp32 with fewer bits, by search from the exact value: no shifts of the unit.
float Rounded(Wide sum, int exponent, int result_bits, bool toward_zero) {
  if (sum == 0) return 0.0f;
  const bool negative = sum < 0;
  Wide magnitude = negative ? -sum : sum;
  int top = exponent - 1;
  for (Wide rest = magnitude; rest > 0; rest /= 2) {
    ++top;
  }
  bool half = false;
  bool below = false;  // of what was cut off
  for (const int last = std::max(top, -126) - result_bits; exponent < last; ++exponent) {
    below = below || half;
    half = magnitude % 2 != 0;
    magnitude /= 2;
  }
  if (!toward_zero && half && (below || magnitude % 2 != 0)) {
    ++magnitude;
  }
  if (toward_zero && magnitude == 0) return 0.0f;
  const auto value = static_cast<float>(std::ldexp(static_cast<double>(magnitude), exponent));
  return negative ? -value : value;
}

float FusedSumOfDoubles(const UnitCase& tested, const std::vector<double>& a,
                        const std::vector<double>& b, float c) {
  const MatrixUnit& unit = tested.unit;
  const int smallest = tested.operand.smallest_exponent;
  const int c_exponent = FindExponent(c, -126);
  int largest = unit.toward_zero ? c_exponent : -126;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] * b[i] != 0) {
      largest = std::max(largest, FindExponent(a[i], smallest) + FindExponent(b[i], smallest));
    }
  }
  Wide sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<Wide>(std::trunc(std::ldexp(a[i] * b[i], unit.fraction_bits - largest)));
  }
  if (unit.toward_zero) {
    sum += static_cast<Wide>(std::trunc(std::ldexp(double{c}, unit.fraction_bits - largest)));
    return Rounded(sum, largest - unit.fraction_bits, unit.result_bits, true);
  }
  const int top = std::max(largest, c_exponent);
  const double products = std::ldexp(static_cast<double>(sum), largest - unit.fraction_bits);
  sum = static_cast<Wide>(std::floor(std::ldexp(products, 31 - top)));
  sum += Wide{128} * static_cast<Wide>(std::floor(std::ldexp(double{c}, 24 - top)));
  return Rounded(sum, top - 31, unit.result_bits, false);
}

float RunUnit(const UnitCase& tested, const std::vector<std::uint32_t>& a,
              const std::vector<std::uint32_t>& b, float c) {
  std::vector<MatrixNumber> left;
  std::vector<MatrixNumber> right;
  for (std::size_t i = 0; i < a.size(); ++i) {
    left.push_back(ToMatrixNumber(tested.operand.format, a[i]));
    right.push_back(ToMatrixNumber(tested.operand.format, b[i]));
  }
  return MultiplyAdd(tested.unit, left, right, c);
}

class MatrixUnits : public ::testing::TestWithParam<UnitCase> {
 protected:
  const UnitCase& tested() const { return GetParam(); }
  std::size_t terms() const { return static_cast<std::size_t>(tested().unit.terms); }
  // The code of a power of two that the format has.
  std::uint32_t PowerOfTwo(int exponent) const {
    for (std::uint32_t bits = 0; bits < 1u << (Bits(tested().operand) - 1); ++bits) {
      if (ToNumber(tested().operand, bits) == std::ldexp(1.0, exponent)) return bits;
    }
    ADD_FAILURE() << "no power of two " << exponent;
    return 0;
  }
  std::uint32_t Negative(std::uint32_t bits) const {
    return bits | 1u << (Bits(tested().operand) - 1);
  }
  // One fused sum: products of powers of two, 2^(p.first + p.second), and c.
  float SumOfPowers(const std::vector<std::pair<int, int>>& products, float c,
                    bool negative = false) {
    std::vector<std::uint32_t> a(terms());
    std::vector<std::uint32_t> b(terms());
    for (std::size_t i = 0; i < products.size(); ++i) {
      const std::uint32_t left = PowerOfTwo(products[i].first);
      a[i] = negative ? Negative(left) : left;
      b[i] = PowerOfTwo(products[i].second);
    }
    return RunUnit(tested(), a, b, c);
  }
};
INSTANTIATE_TEST_SUITE_P(Units, MatrixUnits, ::testing::ValuesIn(kCases));

TEST_P(MatrixUnits, RandomSumsAreThoseOfTheDefinition) {
  std::mt19937 generator(7);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  const OperandFormat& format = tested().operand;
  const std::uint32_t mask = (1u << Bits(format)) - 1;
  for (int round = 0; round < 20000; ++round) {
    // Numbers of all sizes, or alike ones, which cancel; a fourth of them zero or subnormal.
    const std::uint32_t start = random() & mask;
    const std::uint32_t spread = round % 3 == 0 ? mask : mask >> 3;
    std::vector<std::uint32_t> codes[2];
    std::vector<double> numbers[2];
    for (int side = 0; side < 2; ++side) {
      while (codes[side].size() < terms()) {
        std::uint32_t bits = (start + (random() & spread)) & mask;
        bits ^= (random() & 1) << (Bits(format) - 1);
        if (random() % 4 == 0) {
          bits &= (2u << (Bits(format) - 1)) - 1 - (mask >> 1) + ((1u << format.fraction_bits) - 1);
        }
        const double number = ToNumber(format, bits);
        if (!std::isfinite(number)) continue;
        codes[side].push_back(bits);
        numbers[side].push_back(number);
      }
    }
    double largest = 0;
    for (std::size_t i = 0; i < terms(); ++i) {
      largest = std::max(largest, std::abs(numbers[0][i] * numbers[1][i]));
    }
    auto c = static_cast<float>(std::ldexp(largest, static_cast<int>(random() % 60) - 40) *
                                (random() / 2147483648.0 - 1));
    if (round % 5 == 0) c = std::bit_cast<float>(random());
    if (!std::isfinite(c)) c = 0.0f;
    const float expected = FusedSumOfDoubles(tested(), numbers[0], numbers[1], c);
    const float found = RunUnit(tested(), codes[0], codes[1], c);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(expected))
        << tested().unit.name << " " << round << ": " << found << " " << expected;
  }
}

// Where all terms keep all their bits, the sum is exact and rounded once.
TEST_P(MatrixUnits, SumsWithoutCutsAreExact) {
  std::mt19937 generator(8);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  const std::uint32_t small[] = {PowerOfTwo(0), PowerOfTwo(1), PowerOfTwo(2), PowerOfTwo(3)};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint32_t> codes[2];
    Wide sum = 0;
    for (std::size_t i = 0; i < terms(); ++i) {
      double product = 1;
      for (auto& side : codes) {
        side.push_back(small[random() % 4]);
        if (random() % 2 == 0) side.back() = Negative(side.back());
        product *= ToNumber(tested().operand, side.back());
      }
      sum += static_cast<Wide>(product);
    }
    const int c = static_cast<int>(random() % 128) - 64;
    EXPECT_EQ(RunUnit(tested(), codes[0], codes[1], static_cast<float>(c)),
              Rounded(sum + c, 0, tested().unit.result_bits, tested().unit.toward_zero));
  }
}

// 1 - 1 + x: what is left of x, and of products that are x.
TEST_P(MatrixUnits, KeepsItsBitsBehindTheLargestExponentAndNoMore) {
  const int bits = tested().unit.fraction_bits;
  std::vector<std::uint32_t> a(terms());
  std::vector<std::uint32_t> b(terms());
  a[0] = b[0] = b[1] = PowerOfTwo(0);
  a[1] = Negative(b[0]);
  const auto last = std::ldexp(1.0f, -bits);
  EXPECT_EQ(RunUnit(tested(), a, b, last), last);
  EXPECT_EQ(RunUnit(tested(), a, b, -1.5f * last), tested().unit.toward_zero ? -last : -2 * last);
  EXPECT_EQ(RunUnit(tested(), a, b, last / 2), 0.0f);
  for (int i = -bits - 1; i <= -bits; ++i) {
    if (i / 2 < tested().operand.smallest_exponent - 3) continue;  // FP8 has no such product
    a[2] = PowerOfTwo(i / 2);
    b[2] = PowerOfTwo(i - i / 2);
    EXPECT_EQ(RunUnit(tested(), a, b, 0.0f), i == -bits ? last : 0.0f);
    b[2] = Negative(b[2]);
    EXPECT_EQ(RunUnit(tested(), a, b, 0.0f), i == -bits ? -last : 0.0f);
  }
}

TEST_P(MatrixUnits, ZeroIsPositive) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(SumOfPowers({}, -0.0f)), 0u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(SumOfPowers({{0, 0}}, -1.0f)), 0u);
  EXPECT_EQ(SumOfPowers({{0, 0}}, -2.0f), -1.0f);
}

TEST_P(MatrixUnits, EachFusedSumIsRounded) {
  // Two fused sums are one after the other.
  std::vector<std::uint32_t> a(2 * terms(), PowerOfTwo(0));
  const float first = SumOfPowers(std::vector<std::pair<int, int>>(terms(), {0, 0}), 0.5f);
  EXPECT_EQ(RunUnit(tested(), a, a, 0.5f),
            SumOfPowers(std::vector<std::pair<int, int>>(terms(), {0, 0}), first));
}

TEST_P(MatrixUnits, InfinitiesAndNan) {
  const std::uint32_t nan_bits = tested().unit.toward_zero ? 0x7FFFFFFFu : 0x7FC00000u;
  const auto bits_of = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  EXPECT_EQ(SumOfPowers({{0, 0}}, INFINITY), INFINITY);
  EXPECT_EQ(SumOfPowers({{0, 0}}, -INFINITY), -INFINITY);
  EXPECT_EQ(bits_of(SumOfPowers({{0, 0}}, -NAN)), nan_bits);
  const bool is_fp8 = tested().operand.format == MatrixFormat::kE4m3;
  std::vector<std::uint32_t> a(terms());
  std::vector<std::uint32_t> b(terms(), PowerOfTwo(0));
  if (is_fp8) {
    a[1] = 0x7F;
    EXPECT_EQ(bits_of(RunUnit(tested(), a, b, 1.0f)), nan_bits);
    return;
  }
  const int fraction = tested().operand.fraction_bits;
  const std::uint32_t infinity = 0x7FFFu >> fraction << fraction;
  a[1] = infinity;
  EXPECT_EQ(RunUnit(tested(), a, b, 1.0f), INFINITY);
  EXPECT_EQ(bits_of(RunUnit(tested(), a, b, -INFINITY)), nan_bits);
  a[2] = Negative(infinity);
  EXPECT_EQ(bits_of(RunUnit(tested(), a, b, 1.0f)), nan_bits);
  a[1] = 0;
  EXPECT_EQ(RunUnit(tested(), a, b, 1.0f), -INFINITY);
  b[2] = 0;  // infinity times zero
  EXPECT_EQ(bits_of(RunUnit(tested(), a, b, 1.0f)), nan_bits);
  a[2] = infinity | 1;
  EXPECT_EQ(bits_of(RunUnit(tested(), a, b, 1.0f)), nan_bits);
}

TEST(MatrixUnit, SumsBeyondFp32AreInfinite) {
  const UnitCase unit = {kSm90Mma, kBf16Operand};
  const std::vector<std::uint32_t> a(16, 0x7F00);  // 2^127
  EXPECT_EQ(RunUnit(unit, a, std::vector<std::uint32_t>(16, 0x4000), 0.0f), INFINITY);
  EXPECT_EQ(RunUnit(unit, a, std::vector<std::uint32_t>(16, 0xC000), 0.0f), -INFINITY);
}

TEST(MatrixUnit, SubnormalNumbersCount) {
  std::vector<std::uint32_t> a(16);
  a[3] = 1;  // 2^-24 in f16, 2^-133 in bf16
  std::vector<std::uint32_t> b = a;
  EXPECT_EQ(RunUnit({kSm90Mma, kF16Operand}, a, b, 0.0f), 0x1p-48f);
  b[3] = 0x3F80;
  EXPECT_EQ(RunUnit({kSm90Mma, kBf16Operand}, a, b, 0x1p-149f), 0x1p-133f + 0x1p-149f);
}

TEST(MatrixUnit, RoundsTowardZeroOrToTheNearest) {
  std::vector<std::uint32_t> a(16);
  std::vector<std::uint32_t> b(16, 0x3C00);  // 1
  a[0] = 0x1000;                             // 2^-11
  b[0] = 0x0E00;                             // 1.5 * 2^-12
  // 1 + 1.5 * 2^-23 = 1 + 2^-23 + 2^-24
  EXPECT_EQ(RunUnit({kSm90Mma, kF16Operand}, a, b, 1.0f), 1.0f + 0x1p-23f);
  EXPECT_EQ(RunUnit({kGfx942Mfma, kF16Operand}, a, b, 1.0f), 1.0f + 0x1p-22f);
  a[0] |= 0x8000;
  EXPECT_EQ(RunUnit({kSm90Mma, kF16Operand}, a, b, -1.0f), -1.0f - 0x1p-23f);
  EXPECT_EQ(RunUnit({kGfx942Mfma, kF16Operand}, a, b, -1.0f), -1.0f - 0x1p-22f);
}

TEST(MatrixUnit, Fp8OfHopperKeepsThirteenBits) {
  std::vector<std::uint32_t> a(32);
  std::vector<std::uint32_t> b(32);
  a[0] = 0x38;  // 1
  b[0] = 0x38;
  EXPECT_EQ(RunUnit({kSm90WgmmaFp8, kE4m3Operand}, a, b, 0x1p-13f), 1.0f + 0x1p-13f);
  EXPECT_EQ(RunUnit({kSm90WgmmaFp8, kE4m3Operand}, a, b, 0x1p-14f), 1.0f);
  EXPECT_EQ(RunUnit({kSm100Fp8, kE4m3Operand}, a, b, 0x1p-14f), 1.0f + 0x1p-14f);
  b[0] = 0;
  // The accumulator itself is cut.
  EXPECT_EQ(RunUnit({kSm90WgmmaFp8, kE4m3Operand}, a, b, 1.0f + 0x1p-14f), 1.0f);
}

}  // namespace
}  // namespace fathom::kernels::emulator
