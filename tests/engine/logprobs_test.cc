#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fathom {
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

}  // namespace
}  // namespace fathom
