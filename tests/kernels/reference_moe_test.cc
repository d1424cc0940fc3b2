#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/math.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::AsBytes;
using testing::Batch;
using ::testing::ElementsAre;
using testing::Owned;
using testing::Random;
using testing::ToDouble;

struct OwnedRouting {
  Owned<std::int32_t> ids;
  Owned<float> weights;

  OwnedRouting(std::int64_t t, std::int64_t k) : ids(t, k, -1), weights(t, k) {}
  Routing view() { return {ids.view(), weights.view()}; }
};

OwnedRouting Route(std::vector<float> logits, const std::vector<float>& bias, std::int64_t k,
                   float scale) {
  OwnedRouting routing(1, k);
  const Matrix<const float> view = {logits.data(), 1, std::ssize(logits)};
  ReferenceBackend().Route(view, bias, scale, routing.view());
  return routing;
}

TEST(ReferenceMoe, ScoresOfTheSpecification) {
  const std::vector<double> scores = {0.0819472298, 0.559697866, 0.832554638, 1.14597631, 5.0};
  double sum = 0.0;
  for (const double s : scores) sum += s;
  auto routing = Route({-5, -1, 0, 1, 25}, std::vector<float>(5), 5, 2.5f);
  EXPECT_THAT(routing.ids.data, ElementsAre(0, 1, 2, 3, 4));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(static_cast<double>(routing.weights.data[i]), scores[i] / sum * 2.5, 5e-7);
  }
}

TEST(ReferenceMoe, TiesGoToTheLowestExpert) {
  const std::vector<float> none(6);
  EXPECT_THAT(Route({1, 1, 1, 1, 1, 1}, none, 3, 1.0f).ids.data, ElementsAre(0, 1, 2));
  EXPECT_THAT(Route({0, 2, 1, 2, 1, 3}, none, 4, 1.0f).ids.data, ElementsAre(1, 2, 3, 5));
}

TEST(ReferenceMoe, BiasDecidesTheChoiceNotTheWeight) {
  auto routing = Route({0, 0, 0, 0}, {0, 5, -1, 0.5f}, 2, 1.5f);
  EXPECT_THAT(routing.ids.data, ElementsAre(1, 3));
  EXPECT_THAT(routing.weights.data, ElementsAre(0.75f, 0.75f));
}

TEST(ReferenceMoe, NanLogitsStillNameDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> none(4);
  EXPECT_THAT(Route({nan, 1, nan, 2}, none, 2, 1.0f).ids.data, ElementsAre(1, 3));
  EXPECT_THAT(Route({nan, 1, nan, nan}, none, 3, 1.0f).ids.data, ElementsAre(0, 1, 2));
}

TEST(ReferenceMoe, RouteByTokenTakesTheTable) {
  Batch batch;
  batch.Add(0, 0, 2);
  batch.tokens() = {2, 0};
  const std::vector<std::int64_t> table = {3, 3, /**/ 0, 1, /**/ 5, 1};
  Owned<float> logits(2, 6);
  for (std::int64_t e = 0; e < 6; ++e) logits.at(0, e) = logits.at(1, e) = static_cast<float>(e);
  OwnedRouting routing(2, 2);
  ReferenceBackend().RouteByToken(batch.view(), logits.view(), {table.data(), 3, 2}, 2.0f,
                                  routing.view());
  EXPECT_THAT(routing.ids.data, ElementsAre(1, 5, 3, 3));
  const double one = std::sqrt(std::log1p(std::exp(1.0)));
  const double five = std::sqrt(std::log1p(std::exp(5.0)));
  EXPECT_NEAR(static_cast<double>(routing.weights.at(0, 0)), 2.0 * one / (one + five), 1e-6);
  EXPECT_NEAR(static_cast<double>(routing.weights.at(0, 1)), 2.0 * five / (one + five), 1e-6);
  EXPECT_EQ(routing.weights.at(1, 0), 1.0f);  // named twice, counts twice
  EXPECT_EQ(routing.weights.at(1, 1), 1.0f);
}

TEST(ReferenceMoe, SwiGluClampsTheGateAboveAndTheUpOnBothSides) {
  const std::vector<float> gates = {12.0f, -12.0f, 1.0f, 1.0f, 0.0f, -1.5f};
  const std::vector<float> ups = {2.0f, 2.0f, 30.0f, -30.0f, 5.0f, 0.25f};
  Owned<Bf16> gate(1, 6);
  Owned<Bf16> up(1, 6);
  for (std::size_t i = 0; i < 6; ++i) {
    gate.data[i] = ToBf16(gates[i]);
    up.data[i] = ToBf16(ups[i]);
  }
  ReferenceBackend().SwiGlu(gate.view(), up.view(), 10.0f, gate.view());
  for (std::size_t i = 0; i < 6; ++i) {
    const double g = std::min(static_cast<double>(gates[i]), 10.0);
    const double v = std::clamp(static_cast<double>(ups[i]), -10.0, 10.0);
    const double expected = g / (1.0 + std::exp(-g)) * v;
    EXPECT_NEAR(ToDouble(gate.data[i]), expected, 0x1.01p-9 * std::fabs(expected) * 2) << i;
  }
}

// Random experts in both stored formats.
struct Experts {
  std::vector<Owned<std::uint8_t>> memory;
  std::vector<ExpertWeights> weights;

  Weight Make(Random& random, WeightFormat format, std::int64_t n, std::int64_t k) {
    const bool fp4 = format == WeightFormat::kFp4;
    memory.push_back(random.Bytes(n, fp4 ? k / 2 : k));
    if (!fp4) {
      for (std::uint8_t& code : memory.back().data) code = (code & 0x7F) == 0x7F ? 0 : code & 0xBF;
    }
    memory.emplace_back(fp4 ? n : (n + 127) / 128, fp4 ? k / 32 : k / 128, fp4 ? 121 : 124);
    return {.format = format,
            .data = AsBytes(memory[memory.size() - 2]),
            .scales = AsBytes(memory.back()),
            .n = n,
            .k = k};
  }
  void Add(Random& random, WeightFormat format, std::int64_t d, std::int64_t f) {
    weights.push_back({.w1 = Make(random, format, f, d),
                       .w2 = Make(random, format, d, f),
                       .w3 = Make(random, format, f, d)});
  }
};

TEST(ReferenceMoe, ExpertRowsApplyTheWeightBeforeTheSecondProduct) {
  Random random(1);
  const std::int64_t d = 256, f = 128;
  for (const WeightFormat format : {WeightFormat::kFp4, WeightFormat::kFp8}) {
    Experts experts;
    for (int e = 0; e < 3; ++e) experts.Add(random, format, d, f);
    const auto x = random.Bf16s(2, d);
    OwnedRouting routing(2, 2);
    routing.ids.data = {0, 2, 1, 2};
    routing.weights.data = {0.3f, 1.2f, 0.9f, 0.6f};
    Owned<Bf16> rows(4, d);
    ReferenceBackend backend;
    backend.ExpertRows(x.view(), routing.view(), backend.BindExperts(0, experts.weights), 10.0f,
                       rows.view());
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto& expert =
          experts.weights[static_cast<std::size_t>(routing.ids.data[static_cast<std::size_t>(i)])];
      Owned<Bf16> gate(1, f);
      Owned<Bf16> up(1, f);
      backend.Linear(x.view().Rows(i / 2, 1), expert.w1, gate.view());
      backend.Linear(x.view().Rows(i / 2, 1), expert.w3, up.view());
      for (std::size_t j = 0; j < 128; ++j) {
        const float g = std::min(ToFloat(gate.data[j]), 10.0f);
        const float v = std::clamp(ToFloat(up.data[j]), -10.0f, 10.0f);
        gate.data[j] =
            ToBf16(routing.weights.data[static_cast<std::size_t>(i)] * (Silu<ScalarOps>(g) * v));
      }
      Owned<Bf16> expected(1, d);
      backend.Linear(std::as_const(gate).view(), expert.w2, expected.view());
      for (std::int64_t j = 0; j < d; ++j) ASSERT_EQ(rows.at(i, j), expected.at(0, j));
    }
  }
}

// One chain in the order of the rows, then the shared expert: 1 is lost beside 2^24, else kept.
TEST(ReferenceMoe, CombineAddsInOrder) {
  const auto combine = [](std::vector<float> values, float shared_value) {
    Owned<Bf16> rows(std::ssize(values), 1);
    for (std::size_t i = 0; i < values.size(); ++i) rows.data[i] = ToBf16(values[i]);
    Owned<Bf16> shared(1, 1, ToBf16(shared_value));
    ReferenceBackend().CombineExperts(rows.view(), shared.view(), shared.view());
    return ToFloat(shared.at(0, 0));
  };
  EXPECT_EQ(combine({0x1p24f, 1.0f, -0x1p24f}, 0.0f), 0.0f);
  EXPECT_EQ(combine({0x1p24f, -0x1p24f, 1.0f}, 0.0f), 1.0f);
  EXPECT_EQ(combine({0x1p24f, 1.0f}, -0x1p24f), 0.0f);
  EXPECT_EQ(combine({0x1p24f, -0x1p24f}, 1.0f), 1.0f);
  // fp32 sums, one rounding: in bf16 each addition of 2^-9 would be lost.
  EXPECT_EQ(combine({1.0f, 0x1p-9f, 0x1p-9f, 0x1p-9f}, 0x1p-9f), 1.0f + 0x1p-7f);
}

TEST(ReferenceMoe, EmptyBatch) {
  OwnedRouting routing(0, 2);
  const Owned<Bf16> rows(0, 4);
  Owned<Bf16> out(0, 4);
  ReferenceBackend backend;
  backend.CombineExperts(rows.view(), std::as_const(out).view(), out.view());
  backend.Route(Matrix<const float>{nullptr, 0, 4}, std::vector<float>(4), 1.0f, routing.view());
}

}  // namespace
}  // namespace fathom::kernels
