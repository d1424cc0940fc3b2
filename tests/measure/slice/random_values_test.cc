#include "measure/slice/random_values.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <set>
#include <vector>

#include "base/float_types.h"

namespace fathom::measure {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8, DType::kF8E8M0};

SliceTensor MakeTensor(DType dtype, std::int64_t size) {
  return {.name = "layers.0.x", .dtype = dtype, .shape = {size}, .mean = 0.5, .deviation = 0.02};
}

std::vector<std::byte> Values(const SliceTensor& tensor, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(ByteCount(tensor)));
  RandomValues(seed).Fill(tensor, 0, bytes);
  return bytes;
}

struct Moments {
  double mean;
  double deviation;
};

Moments ComputeMoments(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count - (sum / count) * (sum / count))};
}

// The bytes as T, each turned into numbers by `append`.
template <class T>
std::vector<double> Numbers(const std::vector<std::byte>& bytes,
                            const std::function<void(T, std::vector<double>&)>& append) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    append(value, numbers);
  }
  return numbers;
}

TEST(RandomValuesTest, AnyPartIsThatPartOfTheWhole) {
  for (const DType dtype : kTypes) {
    const SliceTensor tensor = MakeTensor(dtype, 1003);
    const std::vector<std::byte> whole = Values(tensor);
    for (const std::size_t first : {std::size_t{0}, std::size_t{4}, std::size_t{500}}) {
      std::vector<std::byte> part(whole.size() - first);
      RandomValues(1).Fill(tensor, static_cast<std::int64_t>(first), part);
      EXPECT_TRUE(
          std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)))
          << Name(dtype) << " from " << first;
    }
  }
}

TEST(RandomValuesTest, TheExpertsOfATokenDiffer) {
  for (const std::int64_t n_experts : {6, 7, 256}) {
    const SliceTensor table = {.name = "layers.0.ffn.gate.tid2eid",
                               .dtype = DType::kI64,
                               .shape = {500, 6},
                               .n_experts = n_experts};
    const std::vector<std::byte> bytes = Values(table);
    std::vector<std::int64_t> ids(bytes.size() / sizeof(std::int64_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    std::set<std::int64_t> all;
    for (std::size_t row = 0; row < 500; ++row) {
      const std::set<std::int64_t> chosen(ids.begin() + static_cast<std::ptrdiff_t>(6 * row),
                                          ids.begin() + static_cast<std::ptrdiff_t>(6 * row + 6));
      EXPECT_EQ(chosen.size(), 6u) << "row " << row;
      all.insert(chosen.begin(), chosen.end());
    }
    EXPECT_EQ(std::ssize(all), n_experts);
    EXPECT_EQ(*all.begin(), 0);
    std::vector<std::byte> part(20);
    for (const std::int64_t first : {0, 4, 8, 44}) {
      RandomValues(1).Fill(table, first, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + first)) << first;
    }
  }
}

TEST(RandomValuesTest, SeedAndNameDecide) {
  for (const DType dtype : kTypes) {
    const SliceTensor tensor = MakeTensor(dtype, 1000);
    SliceTensor other = tensor;
    other.name = "layers.0.y";
    EXPECT_EQ(Values(tensor), Values(tensor)) << Name(dtype);
    EXPECT_NE(Values(tensor), Values(tensor, 2)) << Name(dtype);
    EXPECT_NE(Values(tensor), Values(other)) << Name(dtype);
  }
}

// Figures measured on a slice stay comparable only as long as its bytes do.
TEST(RandomValuesTest, BytesDoNotChangeBetweenVersions) {
  constexpr std::array<std::array<int, 8>, 5> kExpected = {
      {{81, 157, 9, 63, 152, 172, 252, 62},
       {10, 63, 253, 62, 5, 63, 252, 62},
       {111, 243, 235, 235, 227, 106, 105, 114},
       {73, 227, 192, 201, 162, 49, 50, 88},
       {121, 121, 121, 121, 121, 121, 121, 121}}};
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    const std::vector<std::byte> bytes = Values(MakeTensor(kTypes[i], 8));
    std::array<int, 8> first;
    for (std::size_t b = 0; b < first.size(); ++b) {
      first[b] = std::to_integer<int>(bytes[b]);
    }
    EXPECT_EQ(first, kExpected[i]) << Name(kTypes[i]);
  }
}

// With 2^20 values the mean is off by a thousandth of the deviation on average; five times that.
constexpr std::int64_t kMany = 1 << 20;
constexpr double kOff = 0.005;

TEST(RandomValuesTest, FloatsHaveTheirMeanAndDeviation) {
  const Moments f32 = ComputeMoments(Numbers<float>(Values(MakeTensor(DType::kF32, kMany)),
                                                    [](float x, auto& to) { to.push_back(x); }));
  EXPECT_NEAR(f32.mean, 0.5, kOff * 0.02);
  EXPECT_NEAR(f32.deviation, 0.02, kOff * 0.02);
  const Moments bf16 = ComputeMoments(Numbers<Bf16>(
      Values(MakeTensor(DType::kBF16, kMany)), [](Bf16 x, auto& to) { to.push_back(ToFloat(x)); }));
  EXPECT_NEAR(bf16.mean, 0.5, kOff * 0.02);
  EXPECT_NEAR(bf16.deviation, 0.02, kOff * 0.02);
}

TEST(RandomValuesTest, E4m3CodesAreRoundedNormalValues) {
  const std::vector<std::byte> codes = Values(MakeTensor(DType::kF8E4M3, kMany));
  std::int64_t n_subnormal = 0;
  std::int64_t n_nan = 0;
  const Moments moments =
      ComputeMoments(Numbers<std::uint8_t>(codes, [&](std::uint8_t code, std::vector<double>& to) {
        n_nan += (code & 0x7F) == 0x7F;
        n_subnormal += (code & 0x78) == 0;
        to.push_back(E4m3ToFloat(code));
      }));
  EXPECT_EQ(n_nan, 0);
  EXPECT_NEAR(moments.mean, 0, kOff * kE4m3Deviation);
  EXPECT_NEAR(moments.deviation, kE4m3Deviation, 0.01 * kE4m3Deviation);
  // The density at 0 times the width of the interval that becomes subnormal or zero.
  const double expected = static_cast<double>(kMany) * 2 * (0x1p-6 - 0x1p-10) /
                          (kE4m3Deviation * std::sqrt(2 * std::numbers::pi));
  EXPECT_NEAR(static_cast<double>(n_subnormal), expected, 5 * std::sqrt(expected));
}

TEST(RandomValuesTest, E2m1CodesAreRoundedNormalValues) {
  std::array<std::int64_t, 16> counts = {};
  const Moments moments = ComputeMoments(Numbers<std::uint8_t>(
      Values(MakeTensor(DType::kI8, kMany / 2)), [&](std::uint8_t pair, std::vector<double>& to) {
        for (const int code : {pair & 15, pair >> 4}) {
          ++counts[static_cast<std::size_t>(code)];
          to.push_back(E2m1ToFloat(static_cast<std::uint8_t>(code)));
        }
      }));
  EXPECT_NEAR(moments.mean, 0, kOff * kE2m1Deviation);
  EXPECT_NEAR(moments.deviation, kE2m1Deviation, 0.02 * kE2m1Deviation);  // and rounding's noise
  for (std::size_t code = 0; code < 8; ++code) {
    EXPECT_GT(counts[code], 0);
    EXPECT_NEAR(static_cast<double>(counts[code]), static_cast<double>(counts[code + 8]),
                5 * std::sqrt(static_cast<double>(2 * counts[code])));
  }
}

TEST(RandomValuesTest, ScalesHaveTheirRootMeanSquare) {
  SliceTensor tensor = MakeTensor(DType::kF8E8M0, kMany);
  for (const double wanted : {0.0089, 0.0156, 0x1p-7, 1.0, 3.99}) {
    tensor.deviation = wanted;
    double squares = 0;
    Numbers<std::uint8_t>(Values(tensor), [&](std::uint8_t code, std::vector<double>&) {
      const double scale = E8m0ToFloat(code);
      EXPECT_TRUE(scale > wanted / 2 && scale < wanted * 2) << scale << " for " << wanted;
      squares += scale * scale;
    });
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(kMany)), wanted, kOff * wanted);
  }
}

}  // namespace
}  // namespace fathom::measure
