#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::Owned;
using testing::Random;
using testing::ToDouble;

// Streams whose mean square is 1 and whose first number is 2, so that fn[i][0] = m[i] / 2 gives the
// mixes m; stream s has its 2 in column s, so that out[s] = 2 * pre[s].
constexpr std::int64_t kWidth = 4;

Owned<Bf16> UnitStreams() {
  Owned<Bf16> streams(1, 4 * kWidth, ToBf16(0.0f));
  for (std::int64_t s = 0; s < 4; ++s) streams.at(0, s * kWidth + s) = ToBf16(2.0f);
  return streams;
}

struct SpecificationVector {
  Owned<float> fn{24, 4 * kWidth};
  std::vector<float> base;
  std::vector<float> scale = {0.5f, 1.25f, 2.0f};

  SpecificationVector() {
    for (int i = 0; i < 24; ++i) {
      fn.at(i, 0) = 0.5f * 0.125f * static_cast<float>((3 * i * i + i) % 17 - 8);
      base.push_back(0.0625f * static_cast<float>(7 * i % 11 - 5));
    }
  }
  HcWeights weights() const { return {fn.data.data(), base.data(), scale.data()}; }
};

constexpr float kPre[4] = {0.3073590f, 0.4687916f, 0.5621775f, 0.6513559f};
constexpr float kPost[4] = {0.5256837f, 1.2153264f, 1.4115701f, 0.5018256f};
constexpr float kComb[16] = {0.3483027f, 0.5857040f, 0.0606363f, 0.0053560f,  //
                             0.0686774f, 0.3341697f, 0.3959174f, 0.2012345f,  //
                             0.0801128f, 0.0636361f, 0.2181590f, 0.6380910f,  //
                             0.5029061f, 0.0164892f, 0.3252863f, 0.1553175f};

TEST(ReferenceHyperConnection, VectorOfTheSpecification) {
  const SpecificationVector vector;
  const Owned<Bf16> streams = UnitStreams();
  Owned<Bf16> out(1, kWidth);
  Owned<float> post(1, 4);
  Owned<float> comb(1, 16);
  ReferenceBackend().HcPre(streams.view(), vector.weights(), {.norm_eps = 0.0f}, out.view(),
                           {post.view(), comb.view()});
  for (std::int64_t j = 0; j < 4; ++j) {
    EXPECT_EQ(out.at(0, j), ToBf16(2.0f * kPre[j])) << j;
    EXPECT_NEAR(post.at(0, j), kPost[j], 2e-7f) << j;
  }
  for (std::int64_t j = 0; j < 16; ++j) {
    EXPECT_NEAR(comb.at(0, j), kComb[j], 1e-7f) << j;
  }
  for (std::int64_t i = 0; i < 4; ++i) {  // the eps shows
    EXPECT_NEAR(comb.at(0, i) + comb.at(0, 4 + i) + comb.at(0, 8 + i) + comb.at(0, 12 + i),
                0.999999f, 2e-7f);
  }
  Owned<Bf16> head(1, kWidth);
  ReferenceBackend().HcHead(streams.view(), vector.weights(), {.norm_eps = 0.0f}, head.view());
  EXPECT_EQ(head.data, out.data);
}

// All numbers again in double, on random streams: checks the effect of the norm and its eps, too.
TEST(ReferenceHyperConnection, AgreesWithDoubleArithmetic) {
  Random random(1);
  const std::int64_t d = 40;
  const auto streams = random.Bf16s(2, 4 * d, 1e-3f);
  const auto fn = random.Floats(24, 4 * d, 0.2f);
  const auto base = random.Floats(1, 24);
  const std::vector<float> scale = {0.7f, 1.3f, 0.9f};
  Owned<Bf16> out(2, d);
  Owned<float> post(2, 4);
  Owned<float> comb(2, 16);
  const HcOptions options = {.sinkhorn_iterations = 3, .eps = 1e-3f, .norm_eps = 1e-6f};
  ReferenceBackend().HcPre(streams.view(), {fn.data.data(), base.data.data(), scale.data()},
                           options, out.view(), {post.view(), comb.view()});
  const double eps = static_cast<double>(options.eps);
  for (std::int64_t row = 0; row < 2; ++row) {
    double square = 0.0;
    double m[24] = {};
    for (std::int64_t k = 0; k < 4 * d; ++k) {
      const double x = ToDouble(streams.at(row, k));
      square += x * x;
      for (int i = 0; i < 24; ++i) m[i] += x * static_cast<double>(fn.at(i, k));
    }
    for (int i = 0; i < 24; ++i) {
      m[i] /= std::sqrt(square / static_cast<double>(4 * d) + 1e-6);
      m[i] = m[i] * static_cast<double>(scale[i < 4   ? 0
                                              : i < 8 ? 1
                                                      : 2]) +
             static_cast<double>(base.at(0, i));
    }
    double c[4][4];
    for (int i = 0; i < 4; ++i) {
      double sum = 0.0;
      for (int j = 0; j < 4; ++j) sum += std::exp(m[8 + 4 * i + j]);
      for (int j = 0; j < 4; ++j) c[i][j] = std::exp(m[8 + 4 * i + j]) / sum + eps;
    }
    for (int step = 1; step < 2 * 3; ++step) {  // columns, rows, columns, rows, columns
      for (int i = 0; i < 4; ++i) {
        double sum = eps;
        for (int j = 0; j < 4; ++j) sum += step % 2 == 1 ? c[j][i] : c[i][j];
        for (int j = 0; j < 4; ++j) (step % 2 == 1 ? c[j][i] : c[i][j]) /= sum;
      }
    }
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(static_cast<double>(post.at(row, j)), 2.0 / (1.0 + std::exp(-m[4 + j])), 2e-6);
      for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(static_cast<double>(comb.at(row, 4 * i + j)), c[i][j], 2e-6);
      }
    }
    for (std::int64_t i = 0; i < d; ++i) {
      double sum = 0.0;
      double size = 0.0;
      for (int s = 0; s < 4; ++s) {
        const double pre = 1.0 / (1.0 + std::exp(-m[s])) + eps;
        sum += pre * ToDouble(streams.at(row, s * d + i));
        size += std::fabs(pre * ToDouble(streams.at(row, s * d + i)));
      }
      EXPECT_NEAR(ToDouble(out.at(row, i)), sum, 0x1p-8 * std::fabs(sum) + 1e-5 * size);
    }
  }
}

TEST(ReferenceHyperConnection, PostSumsOverTheSourceStream) {
  Owned<Bf16> streams(1, 8);  // d = 2; stream s is (s + 1, 10 (s + 1))
  for (std::int64_t s = 0; s < 4; ++s) {
    streams.at(0, 2 * s) = ToBf16(static_cast<float>(s + 1));
    streams.at(0, 2 * s + 1) = ToBf16(static_cast<float>(10 * (s + 1)));
  }
  Owned<Bf16> y(1, 2);
  y.at(0, 0) = ToBf16(1.0f);
  y.at(0, 1) = ToBf16(-1.0f);
  Owned<float> post(1, 4);
  Owned<float> comb(1, 16);
  for (std::int64_t j = 0; j < 4; ++j) post.at(0, j) = static_cast<float>(j);
  comb.at(0, 4 * 1 + 3) = 2.0f;  // from stream 1 to stream 3
  comb.at(0, 4 * 2 + 0) = 0.5f;  // from stream 2 to stream 0
  comb.at(0, 4 * 3 + 0) = 1.0f;  // from stream 3 to stream 0
  ReferenceBackend().HcPost(y.view(), {post.view(), comb.view()}, streams.view());
  const std::vector<float> expected = {5.5f, 55.0f, 1.0f, -1.0f, 2.0f, -2.0f, 7.0f, 37.0f};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(ToFloat(streams.data[i]), expected[i]) << i;
}

// fma chains from stream 0 on: 1 is lost beside 2^24 before -2^24 comes, or kept after it.
TEST(ReferenceHyperConnection, PostAddsInTheOrderOfTheStreams) {
  const Owned<Bf16> y(1, 1, ToBf16(0.0f));
  const Owned<float> post(1, 4, 0.0f);
  const Owned<float> comb(1, 16, 1.0f);
  Owned<float> post_copy = post;
  Owned<float> comb_copy = comb;
  const auto run = [&](std::vector<float> values) {
    Owned<Bf16> streams(1, 4);
    for (std::size_t i = 0; i < 4; ++i) streams.data[i] = ToBf16(values[i]);
    ReferenceBackend().HcPost(y.view(), {post_copy.view(), comb_copy.view()}, streams.view());
    return ToFloat(streams.at(0, 0));
  };
  EXPECT_EQ(run({0x1p24f, 1.0f, -0x1p24f, 0.0f}), 0.0f);
  EXPECT_EQ(run({0x1p24f, -0x1p24f, 1.0f, 0.0f}), 1.0f);
}

TEST(ReferenceHyperConnection, AddToStreamsAddsToEveryStream) {
  Owned<Bf16> streams(1, 8, ToBf16(1.0f));
  Owned<Bf16> x(1, 2);
  x.at(0, 0) = ToBf16(2.0f);
  x.at(0, 1) = ToBf16(0x1p-9f);  // a quarter of a step above 1: rounds away
  ReferenceBackend().AddToStreams(x.view(), streams.view());
  for (std::int64_t s = 0; s < 4; ++s) {
    EXPECT_EQ(ToFloat(streams.at(0, 2 * s)), 3.0f);
    EXPECT_EQ(ToFloat(streams.at(0, 2 * s + 1)), 1.0f);
  }
}

}  // namespace
}  // namespace fathom::kernels
