#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace fathom::engine {
namespace {

std::vector<float> LogprobLogits(std::size_t count) {
  std::vector<float> logits(count);
  std::uint64_t state = 7;
  for (float& logit : logits) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    logit = static_cast<float>(state >> 40) * 0x1p-20f - 8.0f;
  }
  return logits;
}

TEST(Logprobs, ProbabilitiesSumToOne) {
  const std::vector<float> logits = LogprobLogits(20);
  TokenLogprobs logprobs;
  ComputeLogprobs(logits, 3, 20, logprobs);
  ASSERT_EQ(logprobs.top.size(), 20u);
  double sum = 0;
  for (const TokenLogprob& entry : logprobs.top) {
    sum += std::exp(double{entry.logprob});
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST(Logprobs, AgreeWithLogSoftmax) {
  const std::vector<float> logits = LogprobLogits(129280);
  long double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<long double>(logit));
  }
  TokenLogprobs logprobs;
  ComputeLogprobs(logits, 4711, 5, logprobs);
  EXPECT_EQ(logprobs.chosen.token, 4711);
  EXPECT_FLOAT_EQ(logprobs.chosen.logprob,
                  static_cast<float>(static_cast<long double>(logits[4711]) - std::log(sum)));
  std::vector<float> sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  ASSERT_EQ(logprobs.top.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(logits[static_cast<std::size_t>(logprobs.top[i].token)], sorted[i]);
    EXPECT_FLOAT_EQ(logprobs.top[i].logprob,
                    static_cast<float>(static_cast<long double>(sorted[i]) - std::log(sum)));
  }
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  TokenLogprobs logprobs;
  ComputeLogprobs(std::vector<float>{3e38f, 3e38f, -3e38f}, 1, 3, logprobs);
  EXPECT_FLOAT_EQ(logprobs.chosen.logprob, -std::log(2.0f));
  EXPECT_EQ(logprobs.top[2].token, 2);
}

TEST(Logprobs, TiesByTokenIdAndNoneIfNotAsked) {
  const std::vector<float> logits = {1, 2, 1, 2, 2, 0};
  TokenLogprobs logprobs;
  ComputeLogprobs(logits, 5, 4, logprobs);
  std::vector<Token> tokens;
  for (const TokenLogprob& entry : logprobs.top) {
    tokens.push_back(entry.token);
  }
  EXPECT_EQ(tokens, (std::vector<Token>{1, 3, 4, 0}));
  ComputeLogprobs(logits, 5, 0, logprobs);
  EXPECT_TRUE(logprobs.top.empty());
  EXPECT_EQ(logprobs.chosen.token, 5);
}

// The log-probabilities of `token` and of the best tokens, as bits.
std::vector<std::uint32_t> LogprobBits(std::span<const float> logits, Token token) {
  TokenLogprobs logprobs;
  ComputeLogprobs(logits, token, kMaxTopLogprobs, logprobs);
  std::vector<std::uint32_t> bits = {std::bit_cast<std::uint32_t>(logprobs.chosen.logprob)};
  for (const TokenLogprob& entry : logprobs.top) {
    bits.push_back(std::bit_cast<std::uint32_t>(entry.logprob));
  }
  return bits;
}

// Rows of equal logits, of a few large ones, of ties and of -inf beside them.
std::vector<std::vector<float>> LogprobRows() {
  std::vector<std::vector<float>> rows = {LogprobLogits(129280), LogprobLogits(1), {0.1f, -50.0f}};
  rows.emplace_back(std::size_t{1} << 18, -3.7f);
  // Weights below half a unit, all of which are rounded away: the largest error of a sum.
  rows.emplace_back(std::size_t{1} << 18, -45.001f * 0.6931472f);
  rows.back()[4242] = 0;
  rows.push_back(LogprobLogits(5000));
  for (std::size_t i = 0; i < rows.back().size(); i += 3) {
    rows.back()[i] = -std::numeric_limits<float>::infinity();
    rows.back()[i + 1] = rows.back()[1];
  }
  return rows;
}

TEST(Logprobs, SumsOfLargeVocabulariesDoNotOverflow) {
  constexpr int kCount = 1 << 22;  // the most tokens that a configuration may have
  TokenLogprobs logprobs;
  ComputeLogprobs(std::vector<float>(kCount, 7.5f), kCount - 1, 1, logprobs);
  EXPECT_FLOAT_EQ(logprobs.chosen.logprob, -22 * std::log(2.0f));
  EXPECT_EQ(logprobs.top[0].token, 0);
}

TEST(Logprobs, AnyPermutationGivesTheSameBits) {
  std::mt19937 random(3);
  for (std::vector<float> logits : LogprobRows()) {
    const float chosen = logits[logits.size() / 2];
    const std::vector<std::uint32_t> bits =
        LogprobBits(logits, static_cast<Token>(logits.size() / 2));
    for (int round = 0; round < 3; ++round) {
      std::shuffle(logits.begin(), logits.end(), random);
      const auto token = std::find(logits.begin(), logits.end(), chosen) - logits.begin();
      EXPECT_EQ(LogprobBits(logits, static_cast<Token>(token)), bits) << logits.size();
    }
    std::sort(logits.begin(), logits.end());
    const auto token = std::find(logits.begin(), logits.end(), chosen) - logits.begin();
    EXPECT_EQ(LogprobBits(logits, static_cast<Token>(token)), bits) << logits.size();
  }
}

// The bound of the header, and half a unit of fp32.
TEST(Logprobs, AreAsCloseAsTheWeightsAllow) {
  for (const std::vector<float>& logits : LogprobRows()) {
    const long double largest = *std::max_element(logits.begin(), logits.end());
    long double sum = 0;
    for (const float logit : logits) {
      sum += std::exp(static_cast<long double>(logit) - largest);
    }
    const auto n = static_cast<long double>(logits.size());
    for (std::size_t token = 0; token < logits.size(); token += 1 + logits.size() / 50) {
      TokenLogprobs logprobs;
      ComputeLogprobs(logits, static_cast<Token>(token), 0, logprobs);
      if (std::isinf(logits[token])) {
        EXPECT_EQ(logprobs.chosen.logprob, -std::numeric_limits<float>::infinity());
        continue;
      }
      const long double exact = static_cast<long double>(logits[token]) - largest - std::log(sum);
      const long double bound = n * 0x1p-45L + 0x1p-46L + std::fabs(exact) * 0x1.00001p-24L;
      EXPECT_LE(std::fabs(static_cast<long double>(logprobs.chosen.logprob) - exact), bound)
          << logits.size() << " logits, token " << token;
    }
  }
}

}  // namespace
}  // namespace fathom::engine
