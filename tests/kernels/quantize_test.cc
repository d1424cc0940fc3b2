#include "kernels/reference/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using ::testing::ElementsAre;
using testing::Random;

// The E4M3 number nearest to x, from the definition of the format, ties to the even mantissa.
double NearestE4m3(double x) {
  double best = 0.0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 0x7F; ++code) {
    const int e = code >> 3;
    const int m = code & 7;
    const double value = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
    const double distance = std::fabs(std::fabs(x) - value);
    if (distance < best_distance || (distance == best_distance && m % 2 == 0)) {
      best = value;
      best_distance = distance;
    }
  }
  return std::copysign(best, x);
}

TEST(Quantize, GroupOfTheSpecification) {
  const std::array<float, 8> values = {0.0f, 0.013f, -0.27f, 1.0f, 3.3f, -7.7f, 0.0009f, 2.05f};
  std::array<Bf16, 8> x;
  for (std::size_t i = 0; i < 8; ++i) x[i] = ToBf16(values[i]);
  std::array<std::uint8_t, 8> codes;
  EXPECT_EQ(QuantizeE4m3(x.data(), 8, codes.data()), 0x1p-5f);
  EXPECT_THAT(codes, ElementsAre(0x00, 0x2d, 0xd1, 0x60, 0x6d, 0xf7, 0x0f, 0x68));
}

TEST(Quantize, ScaleIsTheSmallestPowerOfTwoThatFits) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    auto x = random.Bf16s(1, 128, std::ldexp(1.0f, random.Below(60) - 30));
    std::vector<std::uint8_t> codes(128);
    const double scale = QuantizeE4m3(x.data.data(), 128, codes.data());
    double amax = 1e-4f;
    for (const Bf16 v : x.data) amax = std::max(amax, std::fabs(testing::ToDouble(v)));
    EXPECT_GE(scale * 448.0, amax);
    EXPECT_LT(scale * 224.0, amax);
    for (std::size_t i = 0; i < 128; ++i) {
      EXPECT_EQ(static_cast<double>(E4m3ToFloat(codes[i])),
                NearestE4m3(testing::ToDouble(x.data[i]) / scale));
    }
  }
}

TEST(Quantize, ZeroGroupHasTheFloorScale) {
  std::vector<Bf16> x(128, ToBf16(0.0f));
  std::vector<std::uint8_t> codes(128, 1);
  EXPECT_EQ(QuantizeE4m3(x.data(), 128, codes.data()), 0x1p-22f);
  EXPECT_THAT(codes, ::testing::Each(0));
}

TEST(SimulateFp8, GroupsOf64HaveTheirOwnScales) {
  Random random(2);
  auto x = random.Bf16s(1, 192);
  for (std::size_t i = 64; i < 128; ++i) x.data[i] = ToBf16(ToFloat(x.data[i]) * 0x1p-10f);
  auto simulated = x;
  SimulateFp8(simulated.data.data(), 192);
  for (std::size_t group = 0; group < 3; ++group) {
    double amax = 0.0;
    for (std::size_t i = 64 * group; i < 64 * group + 64; ++i) {
      amax = std::max(amax, std::fabs(testing::ToDouble(x.data[i])));
    }
    const double scale = std::exp2(std::ceil(std::log2(amax / 448.0)));
    for (std::size_t i = 64 * group; i < 64 * group + 64; ++i) {
      EXPECT_EQ(testing::ToDouble(simulated.data[i]),
                NearestE4m3(testing::ToDouble(x.data[i]) / scale) * scale);
    }
  }
  auto again = simulated;
  SimulateFp8(again.data.data(), 192);
  EXPECT_EQ(again.data, simulated.data);
}

// Every code with every scale that the floor and bf16 leave, and the sign of zero.
TEST(PackKey, SimulatedKeysComeBackToTheBit) {
  const KeyLayout layout = {.head_dim = 64 + 6, .rope_dims = 6};
  for (int exponent = -22; exponent <= 118; ++exponent) {
    for (int first = 0; first < 256; first += 64) {
      std::vector<Bf16> x(70, ToBf16(0.1f));
      for (int i = 0; i < 64; ++i) {
        const float value = E4m3ToFloat(static_cast<std::uint8_t>(first + i));
        x[static_cast<std::size_t>(i)] = ToBf16(std::ldexp(value, exponent));
      }
      SimulateFp8(x.data(), 64);
      std::vector<std::uint8_t> packed(static_cast<std::size_t>(KeyBytes(layout)), 0xEE);
      std::vector<Bf16> unpacked(70);
      PackKey(x.data(), layout, packed.data());
      UnpackKey(packed.data(), layout, unpacked.data());
      ASSERT_EQ(unpacked, x) << "exponent " << exponent << " codes from " << first;
    }
  }
}

// Unpacked is what SimulateFp8 makes of numbers that were not simulated, whatever they are.
TEST(PackKey, OtherNumbersComeBackSimulated) {
  Random random(7);
  const float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {infinity, -infinity, std::nanf(""), -std::nanf(""), -0.0f, 3.3e38f};
  for (int trial = 0; trial < 400; ++trial) {
    const KeyLayout layout = {.head_dim = 192 + 2 * (trial % 5), .rope_dims = 2 * (trial % 5)};
    auto x = random.Bf16s(1, layout.head_dim, std::ldexp(1.0f, random.Below(250) - 130));
    for (int i = 0; i < trial % 4; ++i) {
      x.at(0, random.Below(192)) = ToBf16(special[random.Below(6)]);
    }
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(KeyBytes(layout)), 0xEE);
    std::vector<Bf16> unpacked(x.data.size());
    PackKey(x.data.data(), layout, packed.data());
    UnpackKey(packed.data(), layout, unpacked.data());
    SimulateFp8(x.data.data(), 192);
    ASSERT_EQ(unpacked, x.data) << "trial " << trial;
  }
}

TEST(PackKey, ShorterLastGroupHasAScaleToo) {
  const KeyLayout layout = {.head_dim = 75, .rope_dims = 2};
  std::vector<Bf16> x(75, ToBf16(-448.0f));
  std::fill_n(x.begin() + 64, 9, ToBf16(7.0f));
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(KeyBytes(layout)), 0xEE);
  PackKey(x.data(), layout, packed.data());
  EXPECT_EQ(packed.size(), 80u);  // 73 + 4 + 2, and one of padding
  EXPECT_EQ(packed[0], 0xFE);
  EXPECT_EQ(packed[72], 0x7E);
  EXPECT_EQ(packed[77], 127);
  EXPECT_EQ(packed[78], 127 - 6);
  EXPECT_EQ(packed[79], 0);
  std::vector<Bf16> unpacked(75);
  UnpackKey(packed.data(), layout, unpacked.data());
  EXPECT_EQ(unpacked, x);
}

TEST(KeyLayout, RowOfV4Takes584Bytes) {
  const KeyLayout layout = {.head_dim = 512, .rope_dims = 64};
  EXPECT_EQ(ScaleOffset(layout), 576);
  EXPECT_EQ(KeyBytes(layout), 584);
}

TEST(RotateHadamard, MatchesTheDefinition) {
  Random random(3);
  const auto x = random.Bf16s(1, 128);
  auto y = x;
  RotateHadamard(y.data.data());
  for (unsigned i = 0; i < 128; ++i) {
    double sum = 0.0;
    for (unsigned j = 0; j < 128; ++j) {
      const double v = testing::ToDouble(x.data[j]);
      sum += (std::popcount(i & j) & 1) != 0 ? -v : v;
    }
    const double expected = sum / std::sqrt(128.0);
    EXPECT_NEAR(testing::ToDouble(y.data[i]), expected, 0x1p-8 * std::fabs(expected) + 1e-6);
  }
}

TEST(RotateHadamard, IsItsOwnInverse) {
  Random random(4);
  const auto x = random.Bf16s(1, 128);
  auto y = x;
  RotateHadamard(y.data.data());
  RotateHadamard(y.data.data());
  double error = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < 128; ++i) {
    const double v = testing::ToDouble(x.data[i]);
    error += std::pow(testing::ToDouble(y.data[i]) - v, 2);
    size += v * v;
  }
  EXPECT_LT(std::sqrt(error / size), 0x1p-8);
  // A unit vector becomes a row of the matrix.
  std::vector<Bf16> unit(128, ToBf16(0.0f));
  unit[5] = ToBf16(1.0f);
  std::vector<Bf16> rotated = unit;
  RotateHadamard(rotated.data());
  for (unsigned i = 0; i < 128; ++i) {
    const float sign = (std::popcount(i & 5u) & 1) != 0 ? -1.0f : 1.0f;
    EXPECT_EQ(rotated[i], ToBf16(sign * 0.08838834764831845f));
  }
}

TEST(PackFp4, GroupOfTheSpecificationInEveryGroup) {
  const std::array<float, 8> values = {0.0f, 0.013f, -0.27f, 1.0f, 3.3f, -7.7f, 0.0009f, 2.05f};
  std::vector<Bf16> x(128, ToBf16(0.0f));
  for (std::size_t group = 0; group < 4; ++group) {
    for (std::size_t i = 0; i < 8; ++i) {
      x[32 * group + i] = ToBf16(std::ldexp(values[i], static_cast<int>(group) - 2));
    }
  }
  std::vector<std::uint8_t> packed(kPackedIndexBytes, 0xFF);
  PackFp4(x.data(), packed.data());
  for (std::size_t group = 0; group < 4; ++group) {
    const std::vector<std::uint8_t> bytes(packed.begin() + static_cast<long>(16 * group),
                                          packed.begin() + static_cast<long>(16 * group + 16));
    EXPECT_THAT(bytes, ElementsAre(0x00, 0x18, 0xe3, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    EXPECT_EQ(packed[64 + group], 128 + group - 2);
  }
}

TEST(PackFp4, ZeroVectorHasTheFloorScale) {
  std::vector<Bf16> x(128, ToBf16(0.0f));
  std::vector<std::uint8_t> packed(kPackedIndexBytes, 0xFF);
  PackFp4(x.data(), packed.data());
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(packed[i], 0);
  for (std::size_t i = 64; i < 68; ++i) EXPECT_EQ(packed[i], 1);
}

}  // namespace
}  // namespace fathom::kernels
