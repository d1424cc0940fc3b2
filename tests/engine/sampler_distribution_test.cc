// Chi-squared tests: what is drawn follows the distribution that the parameters define.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/sampler.h"

namespace fathom::engine {
namespace {

constexpr std::int64_t kDistributionVocab = 20;
constexpr std::int64_t kDraws = 200'000;

std::vector<float> ToyLogits() {
  std::vector<float> logits;
  for (int i = 0; i < kDistributionVocab; ++i) {
    logits.push_back(2.5f * std::sin(1.7f * static_cast<float>(i)) + 10.0f);
  }
  return logits;
}

// By definition, in double: temperature, then the kept set of a full sort, then softmax.
std::vector<double> ExpectedProbabilities(const SamplingParameters& parameters,
                                          const std::vector<float>& logits) {
  std::vector<double> weights;
  for (const float logit : logits) {
    weights.push_back(std::exp((double{logit} - 10) / parameters.temperature));
  }
  std::vector<std::size_t> order(weights.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  const auto drop_from = [&](std::size_t first) {
    for (std::size_t i = first; i < order.size(); ++i) {
      weights[order[i]] = 0;
    }
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (weights[order[i]] < parameters.min_p * weights[order[0]]) weights[order[i]] = 0;
  }
  if (parameters.top_k > 0) drop_from(static_cast<std::size_t>(parameters.top_k));
  double total = 0;
  for (const double weight : weights) {
    total += weight;
  }
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sum += weights[order[i]];
    if (sum >= parameters.top_p * total) {
      drop_from(i + 1);
      break;
    }
  }
  const double kept = std::min(sum, total);
  for (double& weight : weights) {
    weight /= kept;
  }
  return weights;
}

// Chi-squared of draws at (seed_of(i), position_of(i)); fails on a token of probability 0.
void ExpectDistribution(const SamplingParameters& parameters, const std::vector<float>& logits,
                        const std::vector<double>& expected,
                        const std::function<std::uint64_t(std::int64_t)>& seed_of,
                        const std::function<std::int64_t(std::int64_t)>& position_of) {
  Sampler sampler(kDistributionVocab);
  SamplerState state(kDistributionVocab);
  TokenLogprobs logprobs;
  std::vector<std::int64_t> counts(kDistributionVocab, 0);
  for (std::int64_t i = 0; i < kDraws; ++i) {
    if (i == 0 || seed_of(i) != state.seed()) state.Begin(parameters, seed_of(i), {}, {});
    const Result<Token> token = sampler.Sample(logits, state, position_of(i), logprobs);
    ASSERT_TRUE(token);
    ++counts[static_cast<std::size_t>(*token)];
  }
  double chi_squared = 0;
  int cells = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * static_cast<double>(kDraws);
    if (mean == 0) {
      ASSERT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    const double difference = static_cast<double>(counts[i]) - mean;
    chi_squared += difference * difference / mean;
    ++cells;
  }
  // Wilson and Hilferty's approximation of the point that a right sampler exceeds once in 10,000.
  const double degrees = std::max(cells - 1, 1);
  const double spread = 2.0 / (9.0 * degrees);
  const double limit = degrees * std::pow(1 - spread + 3.72 * std::sqrt(spread), 3);
  EXPECT_LT(chi_squared, limit) << cells << " tokens kept";
}

struct DistributionCase {
  std::string name;
  SamplingParameters parameters;
};

class Distribution : public ::testing::TestWithParam<DistributionCase> {};

TEST_P(Distribution, OverPositions) {
  const std::vector<float> logits = ToyLogits();
  const SamplingParameters& parameters = GetParam().parameters;
  ExpectDistribution(
      parameters, logits, ExpectedProbabilities(parameters, logits),
      [](std::int64_t) { return std::uint64_t{20261121}; }, [](std::int64_t i) { return i; });
}

TEST_P(Distribution, OverSeeds) {
  const std::vector<float> logits = ToyLogits();
  const SamplingParameters& parameters = GetParam().parameters;
  ExpectDistribution(
      parameters, logits, ExpectedProbabilities(parameters, logits),
      [](std::int64_t i) { return static_cast<std::uint64_t>(i); },
      [](std::int64_t) { return 17; });
}

INSTANTIATE_TEST_SUITE_P(
    Sampler, Distribution,
    ::testing::Values(DistributionCase{"temperature_1", {}},
                      DistributionCase{"temperature_half", {.temperature = 0.5}},
                      DistributionCase{"temperature_2", {.temperature = 2}},
                      DistributionCase{"top_p", {.top_p = 0.8}},
                      DistributionCase{"top_k", {.top_k = 7}},
                      DistributionCase{"min_p", {.min_p = 0.1}},
                      DistributionCase{
                          "all", {.temperature = 1.5, .top_p = 0.9, .top_k = 12, .min_p = 0.02}}),
    [](const ::testing::TestParamInfo<DistributionCase>& test) { return test.param.name; });

// Neighbouring positions are independent: pairs of draws follow the product distribution.
TEST(SamplerDistribution, NeighboursAreIndependent) {
  const std::vector<float> logits = {0, 0, 0, 0};
  Sampler sampler(4);
  SamplerState state(4);
  state.Begin({}, 1, {}, {});
  TokenLogprobs logprobs;
  std::vector<double> counts(16, 0);
  Token previous = *sampler.Sample(logits, state, 0, logprobs);
  for (std::int64_t position = 1; position <= kDraws; ++position) {
    const Token token = *sampler.Sample(logits, state, position, logprobs);
    ++counts[static_cast<std::size_t>(4 * previous + token)];
    previous = token;
  }
  double chi_squared = 0;
  for (const double count : counts) {
    const double mean = kDraws / 16.0;
    chi_squared += (count - mean) * (count - mean) / mean;
  }
  EXPECT_LT(chi_squared, 44.3);  // 15 degrees of freedom, once in 10,000
}

}  // namespace
}  // namespace fathom::engine
