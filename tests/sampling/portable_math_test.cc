#include "sampling/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace fathom::sampling {
namespace {

// Numbers between two doubles of the same sign.
std::int64_t UlpsApart(double a, double b) {
  return std::abs(std::bit_cast<std::int64_t>(a) - std::bit_cast<std::int64_t>(b));
}

TEST(PortableMath, LogOfAllMagnitudes) {
  EXPECT_EQ(PortableLog(1.0), 0.0);
  for (double x = 1e-300; x < 1e300; x *= 1.0037) {
    ASSERT_LE(UlpsApart(PortableLog(x), std::log(x)), 2) << x;
  }
}

TEST(PortableMath, LogNearOne) {
  for (double distance = 1e-15; distance < 0.5; distance *= 1.013) {
    ASSERT_LE(UlpsApart(PortableLog(1 - distance), std::log(1 - distance)), 2) << distance;
    ASSERT_LE(UlpsApart(PortableLog(1 + distance), std::log(1 + distance)), 2) << distance;
  }
}

TEST(PortableMath, Exp) {
  EXPECT_EQ(PortableExp(0.0), 1.0);
  EXPECT_EQ(PortableExp(-INFINITY), 0.0);
  EXPECT_EQ(PortableExp(-701.0), 0.0);
  for (double x = -699.9; x < 700; x += 0.0173) {
    ASSERT_LE(UlpsApart(PortableExp(x), std::exp(x)), 2) << x;
  }
}

// Drawn tokens depend on these bits. Beside them the right values, to 17 digits.
TEST(PortableMath, GumbelIsTheSameEverywhere) {
  const struct {
    std::uint32_t bits;
    std::uint64_t result;
    double exact;
  } cases[] = {{0, 0xc0090a3aa15a0b5d, -3.1299946408848160},
               {0x12345678, 0xbfef1b82b00c771d, -0.97210821518430950},
               {0x80000000, 0x3fd774f29c39c0bd, 0.36651292091756793},
               {0xffffffff, 0x4036dfb516f1cbbf, 22.873856958419990}};
  for (const auto& known : cases) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(Gumbel(known.bits)), known.result) << known.bits;
    EXPECT_LE(UlpsApart(Gumbel(known.bits), known.exact), 1) << known.bits;
  }
}

TEST(PortableMath, GumbelBoundHolds) {
  for (std::uint64_t step = 0; step <= 0xffffffff; step += 40499) {
    for (const auto bits : {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(~step)}) {
      ASSERT_LE(Gumbel(bits), GumbelBound(bits)) << bits;
      ASSERT_LE(GumbelBound(bits), kGumbelMaximum) << bits;
    }
  }
  for (int shift = 0; shift < 32; ++shift) {
    const std::uint32_t bits = ~(0xffffffffu >> shift);
    ASSERT_LE(Gumbel(bits), GumbelBound(bits)) << bits;
    ASSERT_LE(Gumbel(bits - 1), GumbelBound(bits - 1)) << bits;
  }
}

// Mean 0.5772 (Euler), variance pi^2 / 6.
TEST(PortableMath, GumbelMoments) {
  constexpr int kCount = 1 << 16;
  double sum = 0;
  double squares = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const double g = Gumbel((i << 16) + 0x8000);
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.57721566, 1e-4);
  EXPECT_NEAR(squares / kCount - mean * mean, 1.64493407, 2e-3);
}

}  // namespace
}  // namespace fathom::sampling
