#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::AsBytes;
using testing::Owned;
using testing::Random;
using testing::ToDouble;

// All numbers as one weight.
Weight Bf16Weight(const Owned<Bf16>& numbers, int k_parts = 1) {
  return {.format = WeightFormat::kBf16,
          .data = AsBytes(numbers),
          .scales = nullptr,
          .n = numbers.rows,
          .k = numbers.cols,
          .k_parts = k_parts};
}

// A weight with its memory, and its numbers as doubles.
struct TestWeight {
  Owned<std::uint8_t> data;
  Owned<std::uint8_t> scales;
  Owned<float> float_scales;
  Weight weight;

  double Value(std::int64_t i, std::int64_t k) const {
    if (weight.format == WeightFormat::kFp4) {
      const int nibble = data.at(i, k / 2) >> (k % 2 == 0 ? 0 : 4) & 15;
      const double magnitude[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
      const int byte = scales.at(i, k / 32);
      const double scale = byte == 0 ? 0.0 : std::ldexp(1.0, byte - 127);
      return (nibble >= 8 ? -1.0 : 1.0) * magnitude[nibble & 7] * scale;
    }
    const int code = data.at(i, k);
    const int e = code >> 3 & 15;
    const int m = code & 7;
    const double magnitude = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
    const double scale = weight.scale_format == ScaleFormat::kF32
                             ? static_cast<double>(float_scales.at(i / 128, k / 128))
                             : std::ldexp(1.0, scales.at(i / 128, k / 128) - 127);
    return (code >= 128 ? -1.0 : 1.0) * magnitude * scale;
  }
};

TestWeight RandomFp4(Random& random, std::int64_t n, std::int64_t k) {
  TestWeight w{
      .data = random.Bytes(n, k / 2), .scales = {n, k / 32}, .float_scales = {}, .weight = {}};
  for (std::uint8_t& s : w.scales.data) s = static_cast<std::uint8_t>(117 + random.Below(8));
  w.weight = {.format = WeightFormat::kFp4,
              .data = AsBytes(w.data),
              .scales = AsBytes(w.scales),
              .n = n,
              .k = k};
  return w;
}

TestWeight RandomFp8(Random& random, std::int64_t n, std::int64_t k, ScaleFormat format) {
  TestWeight w{.data = random.Bytes(n, k),
               .scales = {(n + 127) / 128, k / 128},
               .float_scales = random.Floats((n + 127) / 128, k / 128, 0.01f),
               .weight = {}};
  for (std::uint8_t& code : w.data.data) code = (code & 0x7F) == 0x7F ? 0x38 : code;
  for (std::uint8_t& s : w.scales.data) s = static_cast<std::uint8_t>(113 + random.Below(8));
  w.weight = {.format = WeightFormat::kFp8,
              .scale_format = format,
              .data = AsBytes(w.data),
              .scales = format == ScaleFormat::kF32 ? AsBytes(w.float_scales) : AsBytes(w.scales),
              .n = n,
              .k = k};
  return w;
}

// x after quantisation: value = E4M3 * scale.
Owned<double> QuantizedInput(const Owned<Bf16>& x) {
  Owned<double> values(x.rows, x.cols);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t block = 0; block < x.cols; block += 128) {
      double amax = 1e-4f;
      for (std::int64_t k = block; k < block + 128; ++k) {
        amax = std::max(amax, std::fabs(ToDouble(x.at(row, k))));
      }
      const double scale = std::exp2(std::ceil(std::log2(amax / 448.0)));
      for (std::int64_t k = block; k < block + 128; ++k) {
        const double v = ToDouble(x.at(row, k)) / scale;
        int exponent = -6;  // of the binade, at least the smallest normal one
        if (v != 0.0) exponent = std::max(exponent, std::ilogb(v));
        const double step = std::ldexp(1.0, exponent - 3);
        values.at(row, k) = std::nearbyint(v / step) * step * scale;
      }
    }
  }
  return values;
}

// Compares x * w^T with double arithmetic. The chains have at most k / 16 + 8 roundings.
void ExpectProduct(const Owned<double>& x, const TestWeight& w, const Owned<float>& out) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t i = 0; i < w.weight.n; ++i) {
      double sum = 0.0;
      double size = 0.0;
      for (std::int64_t k = 0; k < w.weight.k; ++k) {
        const double product = x.at(row, k) * w.Value(i, k);
        sum += product;
        size += std::fabs(product);
      }
      const double bound = size * static_cast<double>(w.weight.k / 16 + 8) * 0x1p-24;
      ASSERT_NEAR(static_cast<double>(out.at(row, i)), sum, bound) << row << " " << i;
    }
  }
}

Owned<float> Product(const Owned<Bf16>& x, const Weight& w) {
  ReferenceBackend backend;
  Owned<float> out(x.rows, w.n, -1.0f);
  backend.Linear(x.view(), w, out.view());
  Owned<Bf16> rounded(x.rows, w.n);
  backend.Linear(x.view(), w, rounded.view());
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    EXPECT_EQ(rounded.data[i], ToBf16(out.data[i]));
  }
  return out;
}

TEST(ReferenceLinear, Fp4AgreesWithDoubleArithmetic) {
  Random random(1);
  for (const std::int64_t k : {128, 256, 640}) {
    const auto x = random.Bf16s(3, k, 5.0f);
    const TestWeight w = RandomFp4(random, 37, k);
    ExpectProduct(QuantizedInput(x), w, Product(x, w.weight));
  }
}

TEST(ReferenceLinear, Fp8AgreesWithDoubleArithmetic) {
  Random random(2);
  for (const ScaleFormat format : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
    for (const std::int64_t k : {128, 384, 1024}) {
      const auto x = random.Bf16s(3, k, 0.1f);
      TestWeight w = RandomFp8(random, 131, k, format);
      ExpectProduct(QuantizedInput(x), w, Product(x, w.weight));
      w.weight.k_parts = RowParallelParts(k);
      ExpectProduct(QuantizedInput(x), w, Product(x, w.weight));
    }
  }
}

// The order of docs/numerics.md in other words: integers for the sums of 8.
TEST(ReferenceLinear, Fp4SumsOfEightAreRoundedOnce) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    auto x = random.Bf16s(1, 256);
    for (Bf16& v : x.data) {  // many binades, so that sums of 8 need more than 24 bits
      v = ToBf16(ToFloat(v) * std::ldexp(1.0f, -random.Below(18)));
    }
    x.data[0] = x.data[128] = ToBf16(448.0f);  // scales of 1
    for (std::size_t i : {1u, 2u, 3u, 130u, 131u}) x.data[i] = ToBf16(416.0f);
    const TestWeight w = RandomFp4(random, 5, 256);
    const Owned<double> values = QuantizedInput(x);
    const Owned<float> out = Product(x, w.weight);
    for (std::int64_t i = 0; i < 5; ++i) {
      float lane[16] = {};
      for (std::int64_t g = 0; g < 32; ++g) {  // sums of 8: four per block of 32
        std::int32_t sum = 0;
        for (std::int64_t k = 8 * g; k < 8 * g + 8; ++k) {
          const double scale = std::ldexp(1.0, w.scales.at(i, k / 32) - 127);
          sum += static_cast<std::int32_t>(512.0 * values.at(0, k)) *
                 static_cast<std::int32_t>(2.0 * w.Value(i, k) / scale);
        }
        const float scale = std::ldexp(1.0f, w.scales.at(i, g / 4) - 127);
        lane[g % 16] = std::fma(static_cast<float>(sum) * 0x1p-10f, scale, lane[g % 16]);
      }
      float half[4];
      for (int l = 0; l < 4; ++l) {
        half[l] = (lane[l] + lane[8 + l]) + (lane[4 + l] + lane[12 + l]);
      }
      EXPECT_EQ(out.at(0, i), (half[0] + half[2]) + (half[1] + half[3]));
    }
  }
}

// One row of FP4 weights with every code `nibble` and every scale `byte`, times x.
float Fp4Row(const Owned<Bf16>& x, int nibble, std::uint8_t byte) {
  const Owned<std::uint8_t> data(1, x.cols / 2, static_cast<std::uint8_t>(nibble * 17));
  const Owned<std::uint8_t> scales(1, x.cols / 32, byte);
  return Product(x, {.format = WeightFormat::kFp4,
                     .data = AsBytes(data),
                     .scales = AsBytes(scales),
                     .n = 1,
                     .k = x.cols})
      .at(0, 0);
}

TEST(ReferenceLinear, Fp4Extremes) {
  const Owned<Bf16> largest(1, 128, ToBf16(448.0f));
  EXPECT_EQ(Fp4Row(largest, 7, 127), 128 * 448.0f * 6.0f);
  EXPECT_EQ(Fp4Row(largest, 15, 127), -128 * 448.0f * 6.0f);
  EXPECT_EQ(Fp4Row(largest, 1, 128), 128 * 448.0f);
  // Minus zero adds nothing, and leaves no minus sign.
  EXPECT_EQ(std::bit_cast<std::uint32_t>(Fp4Row(largest, 8, 127)), 0u);
  // A scale byte of 0 is zero, not 2^-127.
  EXPECT_EQ(Fp4Row(largest, 7, 0), 0.0f);
  EXPECT_EQ(Fp4Row(largest, 7, 1), 128 * 448.0f * 6.0f * 0x1p-126f);
  // E4M3 subnormals: the scale stays 1 because of one 448.
  Owned<Bf16> small(1, 128, ToBf16(0x1p-9f));
  small.data[0] = ToBf16(448.0f);
  EXPECT_EQ(Fp4Row(small, 1, 127), 224.0f + 127 * 0x1p-10f);
  // Zeros, and numbers below the floor of the scale (2^-22): 2^-32 is half of its smallest step.
  EXPECT_EQ(Fp4Row(Owned<Bf16>(1, 128, ToBf16(0.0f)), 7, 127), 0.0f);
  EXPECT_EQ(Fp4Row(Owned<Bf16>(1, 128, ToBf16(0x1p-32f)), 2, 127), 0.0f);
  EXPECT_EQ(Fp4Row(Owned<Bf16>(1, 128, ToBf16(0x1p-31f)), 2, 127), 128 * 0x1p-31f);
}

TEST(ReferenceLinear, Fp8ScalesMayBeZeroByteOrInexact) {
  const Owned<Bf16> x(1, 128, ToBf16(448.0f));
  const Owned<std::uint8_t> data(1, 128, 0x7E);  // 448
  const Owned<std::uint8_t> zero(1, 1, 0);
  Weight w = {.format = WeightFormat::kFp8,
              .data = AsBytes(data),
              .scales = AsBytes(zero),
              .n = 1,
              .k = 128};
  EXPECT_EQ(Product(x, w).at(0, 0), 128 * 448.0f * 448.0f * 0x1p-127f);
  const Owned<float> third(1, 1, 1.0f / 3.0f);
  w.scale_format = ScaleFormat::kF32;
  w.scales = AsBytes(third);
  EXPECT_EQ(Product(x, w).at(0, 0), 16 * (8 * 448.0f * 448.0f * (1.0f / 3.0f)));
}

TEST(ReferenceLinear, Fp8LanesOwnFourColumnsOfEachHalf) {
  // Lane 0 holds a number so large that one small addend is half of its last digit and lost. Two
  // small ones show whether they met in a lane of their own first.
  Owned<std::uint8_t> data(1, 128, 0);
  Owned<Bf16> x(1, 128, ToBf16(0.0f));
  const Owned<std::uint8_t> scales(1, 1, 127);
  const Weight w = {.format = WeightFormat::kFp8,
                    .data = AsBytes(data),
                    .scales = AsBytes(scales),
                    .n = 1,
                    .k = 128};
  const auto sum = [&](std::vector<std::int64_t> small) {
    std::fill(data.data.begin(), data.data.end(), std::uint8_t{0});
    std::fill(x.data.begin(), x.data.end(), ToBf16(0.0f));
    data.at(0, 0) = 0x7E;
    x.at(0, 0) = ToBf16(256.0f);    // 256 * 448 = 114688, whose steps are 2^-7
    x.at(0, 127) = ToBf16(448.0f);  // times 0: makes the scale 1
    for (const std::int64_t k : small) {
      data.at(0, k) = 0x01;
      x.at(0, k) = ToBf16(2.0f);  // 2^-8: half a step
    }
    return Product(x, w).at(0, 0);
  };
  EXPECT_EQ(sum({3}), 114688.0f);
  EXPECT_EQ(sum({3, 64}), 114688.0f);            // both in lane 0
  EXPECT_EQ(sum({3, 67}), 114688.0f);            // both in lane 0
  EXPECT_EQ(sum({4, 64}), 114688.0f);            // alone in lane 1, alone in lane 0
  EXPECT_EQ(sum({4, 68}), 114688.0f + 0x1p-7f);  // together in lane 1
  EXPECT_EQ(sum({4, 7}), 114688.0f + 0x1p-7f);
}

TEST(ReferenceLinear, Bf16LanesAndTree) {
  const auto sum = [&](const std::vector<std::int64_t>& ones, int parts) {
    Owned<Bf16> x(1, 256, ToBf16(0.0f));
    const Owned<Bf16> w(1, 256, ToBf16(1.0f));
    x.at(0, 0) = ToBf16(0x1p24f);  // its steps are 2
    for (const std::int64_t k : ones) x.at(0, k) = ToBf16(1.0f);
    return Product(x, Bf16Weight(w, parts)).at(0, 0);
  };
  EXPECT_EQ(sum({32, 64}, 1), 0x1p24f);       // the same lane
  EXPECT_EQ(sum({16, 8}, 1), 0x1p24f);        // met one by one in the tree
  EXPECT_EQ(sum({1, 3}, 1), 0x1p24f + 2.0f);  // meet each other first
  EXPECT_EQ(sum({1, 2}, 1), 0x1p24f);
  EXPECT_EQ(sum({5, 37}, 1), 0x1p24f + 2.0f);  // 37 = 5 + 32: one chain
  EXPECT_EQ(sum({128, 160}, 1), 0x1p24f);
  EXPECT_EQ(sum({128, 160}, 2), 0x1p24f + 2.0f);  // a part of their own
}

TEST(ReferenceLinear, F32AndBf16AgreeWithDoubleArithmetic) {
  Random random(5);
  for (const std::int64_t k : {1, 31, 33, 200}) {
    const auto x = random.Bf16s(2, k);
    const auto wide = random.Floats(7, k);
    const auto narrow = random.Bf16s(7, k);
    const auto from_wide = Product(
        x,
        {.format = WeightFormat::kF32, .data = AsBytes(wide), .scales = nullptr, .n = 7, .k = k});
    const auto from_narrow = Product(x, Bf16Weight(narrow));
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t i = 0; i < 7; ++i) {
        double wide_sum = 0.0;
        double narrow_sum = 0.0;
        for (std::int64_t j = 0; j < k; ++j) {
          wide_sum += ToDouble(x.at(row, j)) * static_cast<double>(wide.at(i, j));
          narrow_sum += ToDouble(x.at(row, j)) * ToDouble(narrow.at(i, j));
        }
        const double bound = 1e-6 * std::sqrt(static_cast<double>(k)) * 4.0;
        EXPECT_NEAR(static_cast<double>(from_wide.at(row, i)), wide_sum, bound);
        EXPECT_NEAR(static_cast<double>(from_narrow.at(row, i)), narrow_sum, bound);
      }
    }
  }
}

// x [256] times w [256], in the order of FP8 products.
float SumByBlocks(const Bf16* x, const Bf16* w) {
  float lane[16] = {};
  for (int block = 0; block < 2; ++block) {
    for (int c = 0; c < 16; ++c) {
      float chain = -0.0f;
      for (const int half : {0, 64}) {
        for (int k = 128 * block + half + 4 * c; k < 128 * block + half + 4 * c + 4; ++k) {
          chain = std::fma(ToFloat(x[k]), ToFloat(w[k]), chain);
        }
      }
      lane[c] += chain;
    }
  }
  float half[4];
  for (int l = 0; l < 4; ++l) {
    half[l] = (lane[l] + lane[8 + l]) + (lane[4 + l] + lane[12 + l]);
  }
  return (half[0] + half[2]) + (half[1] + half[3]);
}

TEST(ReferenceLinear, GroupedFp8IsTheProductOfDequantisedWeights) {
  Random random(6);
  constexpr std::int64_t kGroups = 3, kGroupRows = 50, k = 256;
  const auto x = random.Bf16s(2, kGroups * k);
  for (const ScaleFormat format : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
    const TestWeight fp8 = RandomFp8(random, kGroups * kGroupRows, k, format);
    Owned<Bf16> dequantised(kGroups * kGroupRows, k);
    for (std::int64_t i = 0; i < dequantised.rows; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        // One rounding to fp32, one to bf16, as the official conversion does.
        dequantised.at(i, j) = ToBf16(static_cast<float>(fp8.Value(i, j)));
      }
    }
    ReferenceBackend backend;
    Owned<Bf16> out(2, kGroups * kGroupRows);
    backend.GroupedLinear(x.view(), fp8.weight, kGroups, out.view());
    Owned<Bf16> from_bf16(2, kGroups * kGroupRows);
    backend.GroupedLinear(x.view(), Bf16Weight(dequantised), kGroups, from_bf16.view());
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t i = 0; i < dequantised.rows; ++i) {
        const Bf16 expected =
            ToBf16(SumByBlocks(x.view().Row(row) + i / kGroupRows * k, dequantised.view().Row(i)));
        EXPECT_EQ(out.at(row, i), expected);
        EXPECT_EQ(from_bf16.at(row, i), expected);
      }
    }
  }
}

// One group: x, in every column but the first, times weights of 2^-9, with x [0] times 1.
float GroupedRow(float first, float others, float scale) {
  Owned<Bf16> x(1, 128, ToBf16(others));
  x.at(0, 0) = ToBf16(first);
  Owned<std::uint8_t> data(1, 128, 0x01);
  data.at(0, 0) = 0x38;
  const Owned<float> scales(1, 1, scale);
  Owned<Bf16> out(1, 1);
  ReferenceBackend().GroupedLinear(x.view(),
                                   {.format = WeightFormat::kFp8,
                                    .scale_format = ScaleFormat::kF32,
                                    .data = AsBytes(data),
                                    .scales = AsBytes(scales),
                                    .n = 1,
                                    .k = 128},
                                   1, out.view());
  return ToFloat(out.at(0, 0));
}

TEST(ReferenceLinear, GroupedExtremes) {
  EXPECT_EQ(GroupedRow(0.0f, 0x1p-50f, 1.0f), ToFloat(ToBf16(127 * 0x1p-59f)));
  EXPECT_EQ(GroupedRow(0.0f, 0x1p-51f, 1.0f), 0.0f);
  EXPECT_EQ(GroupedRow(0x1p-50f, -0x1p-51f, -1.0f), -0x1p-50f);
  EXPECT_EQ(GroupedRow(0x1p63f, 0.0f, 0x1p63f), 0x1p126f);
  EXPECT_EQ(GroupedRow(1.0f, 0.0f, 0x1p-126f), 0x1p-126f);
  EXPECT_EQ(GroupedRow(0x1p20f, 0.0f, 0x1p-127f), 0.0f);  // subnormal
}

TEST(ReferenceLinear, GroupedBf16OfAnyWidthIsInTheOrderOfBf16) {
  Random random(6);
  const std::int64_t groups = 3, rows_per_group = 50, k = 200;
  const auto x = random.Bf16s(2, groups * k);
  const auto numbers = random.Bf16s(groups * rows_per_group, k);
  ReferenceBackend backend;
  Owned<Bf16> out(2, groups * rows_per_group);
  backend.GroupedLinear(x.view(), Bf16Weight(numbers), groups, out.view());
  for (std::int64_t g = 0; g < groups; ++g) {
    Owned<Bf16> part(2, k);
    for (std::int64_t row = 0; row < 2; ++row) {
      std::copy_n(x.view().Row(row) + g * k, k, part.view().Row(row));
    }
    Weight w = Bf16Weight(numbers);
    w.data += g * rows_per_group * w.RowBytes();
    w.n = rows_per_group;
    const Owned<float> expected = Product(part, w);
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t i = 0; i < rows_per_group; ++i) {
        EXPECT_EQ(out.at(row, g * rows_per_group + i), ToBf16(expected.at(row, i)));
      }
    }
  }
}

TEST(ReferenceLinear, RowsDoNotDependOnTheBatch) {
  Random random(7);
  const auto x = random.Bf16s(5, 256);
  const TestWeight w = RandomFp4(random, 9, 256);
  const Owned<float> all = Product(x, w.weight);
  for (std::int64_t row = 0; row < 5; ++row) {
    Owned<Bf16> one(1, 256);
    std::copy_n(x.view().Row(row), 256, one.view().Row(0));
    const Owned<float> alone = Product(one, w.weight);
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(alone.at(0, i), all.at(row, i));
  }
  EXPECT_TRUE(Product(Owned<Bf16>(0, 256), w.weight).data.empty());
}

}  // namespace
}  // namespace fathom::kernels
