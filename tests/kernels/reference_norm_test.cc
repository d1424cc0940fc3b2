#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::Batch;
using testing::Owned;
using testing::Random;
using testing::RopeTable;
using testing::ToDouble;

TEST(ReferenceNorm, EmbedRepeatsTheRowOfEachToken) {
  Random random(1);
  const auto table = random.Bf16s(10, 6);
  Batch batch;
  batch.Add(0, 0, 2);
  batch.tokens() = {7, 3};
  Owned<Bf16> out(2, 24);
  ReferenceBackend().Embed(batch.view(), table.view(), out.view());
  for (std::int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(out.at(0, i), table.at(7, i % 6));
    EXPECT_EQ(out.at(1, i), table.at(3, i % 6));
  }
}

TEST(ReferenceNorm, RmsNormAgreesWithDoubleArithmetic) {
  Random random(2);
  for (const std::int64_t d : {1, 15, 100, 512}) {
    const auto x = random.Bf16s(3, d);
    const auto weight = random.Bf16s(1, d);
    Owned<Bf16> out(3, d);
    ReferenceBackend backend;
    backend.RmsNorm(x.view(), weight.data, 1e-6f, out.view());
    for (std::int64_t row = 0; row < 3; ++row) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < d; ++i) sum += std::pow(ToDouble(x.at(row, i)), 2);
      const double r = 1.0 / std::sqrt(sum / static_cast<double>(d) + 1e-6);
      for (std::int64_t i = 0; i < d; ++i) {
        const double expected = ToDouble(weight.at(0, i)) * ToDouble(x.at(row, i)) * r;
        EXPECT_NEAR(ToDouble(out.at(row, i)), expected, std::fabs(expected) * 0x1.001p-8);
      }
    }
    Owned<Bf16> in_place = x;
    backend.RmsNorm(in_place.view(), weight.data, 1e-6f, in_place.view());
    EXPECT_EQ(in_place.data, out.data);
  }
}

// Every step of docs/spec/model.md 5.2 rounds to bf16.
TEST(ReferenceNorm, QueryHeadsRoundAtEveryStep) {
  Random random(3);
  const std::int64_t head_dim = 128, heads = 3, rope_dims = 64;
  const auto q = random.Bf16s(4, heads * head_dim, 3.0f);
  const std::vector<float> frequencies = RopeFrequencies(rope_dims, 10000.0f, {});
  const std::vector<std::int32_t> positions = {0, 1, 1000, 70000};
  const RopeTable rope(positions, frequencies);
  Owned<Bf16> out = q;
  ReferenceBackend().QueryHeads(out.view(), head_dim, 1e-6f, rope.view());
  const auto bf = [](double x) { return static_cast<double>(RoundToBf16(static_cast<float>(x))); };
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t head = 0; head < heads * head_dim; head += head_dim) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < head_dim; ++i) {
        sum += bf(std::pow(ToDouble(q.at(row, head + i)), 2));
      }
      const double mean = bf(sum / static_cast<double>(head_dim));
      const double s = bf(1.0 / std::sqrt(bf(mean + 1e-6)));
      for (std::int64_t i = 0; i < head_dim - rope_dims; ++i) {
        EXPECT_EQ(ToDouble(out.at(row, head + i)), bf(ToDouble(q.at(row, head + i)) * s));
      }
      for (std::int64_t k = 0; k < rope_dims / 2; ++k) {
        const std::int64_t first = head + head_dim - rope_dims + 2 * k;
        const double x = bf(ToDouble(q.at(row, first)) * s);
        const double y = bf(ToDouble(q.at(row, first + 1)) * s);
        const double c = static_cast<double>(rope.cos.at(row, k));
        const double n = static_cast<double>(rope.sin.at(row, k));
        const double bound = 0x1p-8 * std::hypot(x, y);
        EXPECT_NEAR(ToDouble(out.at(row, first)), x * c - y * n, bound);
        EXPECT_NEAR(ToDouble(out.at(row, first + 1)), x * n + y * c, bound);
      }
    }
  }
}

// mean 9 + eps is 9; 1 / 3 rounds up to 0.333984375; 3 times that rounds down to 1.
TEST(ReferenceNorm, QueryHeadByHand) {
  Owned<Bf16> q(1, 64, ToBf16(3.0f));
  q.at(0, 1) = ToBf16(-3.0f);
  const RopeTable none(std::vector<std::int32_t>{0}, {});
  ReferenceBackend().QueryHeads(q.view(), 64, 1e-6f, none.view());
  EXPECT_EQ(ToFloat(q.at(0, 0)), 1.0f);
  EXPECT_EQ(ToFloat(q.at(0, 1)), -1.0f);
  // eps vanishes in bf16 beside 9, not beside 2^-20.
  Owned<Bf16> small(1, 64, ToBf16(0x1p-10f));
  ReferenceBackend().QueryHeads(small.view(), 64, 1e-6f, none.view());
  // 2^-20 + 1e-6 = 1.9537e-6 -> bf16 1.0234375 * 2^-19; 1 / sqrt -> 716 in steps of 4.
  EXPECT_EQ(ToFloat(small.at(0, 0)), 716.0f * 0x1p-10f);
}

TEST(ReferenceNorm, WindowKeysAreNormalisedRotatedAndSimulated) {
  Random random(4);
  const std::int64_t head_dim = 192, rope_dims = 64;
  auto kv = random.Bf16s(3, head_dim);
  const auto norm = random.Bf16s(1, head_dim);
  const std::vector<float> frequencies = RopeFrequencies(rope_dims, 10000.0f, {});
  const RopeTable rope(std::vector<std::int32_t>{0, 5, 300}, frequencies);
  ReferenceBackend backend;
  Owned<Bf16> normalised(3, head_dim);
  backend.RmsNorm(kv.view(), norm.data, 1e-6f, normalised.view());
  backend.WindowKeys(kv.view(), norm.data, 1e-6f, rope.view());
  for (std::int64_t row = 0; row < 3; ++row) {
    std::vector<Bf16> plain(normalised.view().Row(row), normalised.view().Row(row) + 128);
    SimulateFp8(plain.data(), 128);
    for (std::int64_t i = 0; i < 128; ++i) {
      EXPECT_EQ(kv.at(row, i), plain[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t k = 0; k < 32; ++k) {
      const double x = ToDouble(normalised.at(row, 128 + 2 * k));
      const double y = ToDouble(normalised.at(row, 129 + 2 * k));
      const double c = static_cast<double>(rope.cos.at(row, k));
      const double s = static_cast<double>(rope.sin.at(row, k));
      EXPECT_NEAR(ToDouble(kv.at(row, 128 + 2 * k)), x * c - y * s, 0x1p-8 * std::hypot(x, y));
      EXPECT_NEAR(ToDouble(kv.at(row, 129 + 2 * k)), x * s + y * c, 0x1p-8 * std::hypot(x, y));
    }
  }
}

}  // namespace
}  // namespace fathom::kernels
