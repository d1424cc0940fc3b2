#include "kernels/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom::kernels {
namespace {

// Distance of `value` from the exact result in units of the last place of the exact result.
double UlpError(float value, double exact) {
  const float rounded = static_cast<float>(exact);
  if (value == rounded) {
    return 0.0;
  }
  const double ulp = std::nextafterf(std::fabs(rounded), INFINITY) - std::fabs(rounded);
  return std::fabs(static_cast<double>(value) - exact) / ulp;
}

template <class Function, class Exact>
double WorstUlp(double from, double to, double step, Function function, Exact exact) {
  double worst = 0.0;
  for (double x = from; x < to; x += step) {
    const auto y = static_cast<float>(x);
    worst = std::max(worst, UlpError(function(y), exact(static_cast<double>(y))));
  }
  return worst;
}

TEST(Math, ExpWithinTwoUlp) {
  EXPECT_LE(WorstUlp(-87.0, 88.7, 1.3e-4, Exp<ScalarOps>, [](double x) { return std::exp(x); }), 2);
}

TEST(Math, ExpAtTheEdges) {
  EXPECT_EQ(Exp<ScalarOps>(0.0f), 1.0f);
  EXPECT_EQ(Exp<ScalarOps>(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(Exp<ScalarOps>(-1000.0f), 0.0f);
  EXPECT_EQ(Exp<ScalarOps>(88.8f), std::numeric_limits<float>::infinity());
  EXPECT_GT(Exp<ScalarOps>(-103.0f), 0.0f);
  EXPECT_TRUE(std::isnan(Exp<ScalarOps>(std::nanf(""))));
}

TEST(Math, Log1pWithinTwoUlp) {
  EXPECT_LE(WorstUlp(0.0, 8.0, 1e-5, Log1p<ScalarOps>, [](double x) { return std::log1p(x); }), 2);
  EXPECT_LE(WorstUlp(8.0, 1e6, 1.37, Log1p<ScalarOps>, [](double x) { return std::log1p(x); }), 2);
  EXPECT_EQ(Log1p<ScalarOps>(1e-30f), 1e-30f);
  EXPECT_EQ(Log1p<ScalarOps>(0.0f), 0.0f);
}

// Compositions: one rounding each of exp (< 1 ulp), of the sum and of the quotient.
TEST(Math, SigmoidAndSiluWithinThreeUlp) {
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  EXPECT_LE(WorstUlp(-80.0, 80.0, 1.1e-4, Sigmoid<ScalarOps>, sigmoid), 3);
  EXPECT_LE(
      WorstUlp(-80.0, 80.0, 1.1e-4, Silu<ScalarOps>, [&](double x) { return x * sigmoid(x); }), 3);
}

TEST(Math, SoftplusWithinThreeUlp) {
  EXPECT_LE(WorstUlp(-60.0, 20.0, 9e-5, Softplus<ScalarOps>,
                     [](double x) { return std::log1p(std::exp(x)); }),
            3);
  EXPECT_EQ(Softplus<ScalarOps>(25.0f), 25.0f);
}

// sqrt(softplus(l)) as listed in docs/spec/model.md 7.1.
TEST(Math, RouterScoresOfTheSpecification) {
  const float expected[5][2] = {{-5.0f, 0.0819472298f},
                                {-1.0f, 0.559697866f},
                                {0.0f, 0.832554638f},
                                {1.0f, 1.14597631f},
                                {25.0f, 5.0f}};
  for (const auto& [logit, score] : expected) {
    EXPECT_NEAR(std::sqrt(Softplus<ScalarOps>(logit)), score, 1.2e-7 * score) << logit;
  }
}

}  // namespace
}  // namespace fathom::kernels
