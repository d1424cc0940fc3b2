#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sampling/philox.h"
#include "sampling/portable_math.h"

namespace fathom::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A state in the middle of an answer.
SamplerState MakeState(std::int64_t vocab_size, const SamplingParameters& parameters,
                       std::vector<Token> prompt = {}, std::vector<Token> output = {},
                       std::vector<Token> eos = {}) {
  SamplerState state(vocab_size);
  state.Begin(parameters, parameters.seed.value_or(0), prompt, eos);
  for (const Token token : output) {
    state.Accept(token);
  }
  return state;
}

Token SampleAt(const std::vector<float>& logits, const SamplerState& state,
               std::int64_t position = 0) {
  Sampler sampler(static_cast<std::int64_t>(logits.size()));
  TokenLogprobs logprobs;
  const Result<Token> token = sampler.Sample(logits, state, position, logprobs);
  EXPECT_TRUE(token);
  return token.value_or(-1);
}

std::vector<float> Processed(std::vector<float> logits, const SamplerState& state) {
  std::vector<TokenCount> counts;
  ChangeLogits(state.Row(0, {}, counts), logits);
  return logits;
}

TEST(Greedy, LargestLogitTiesLowestId) {
  const SamplingParameters greedy{.temperature = 0};
  EXPECT_EQ(SampleAt({1, 3, 2}, MakeState(3, greedy)), 1);
  EXPECT_EQ(SampleAt({1, 3, 3, 3}, MakeState(4, greedy)), 1);
  EXPECT_EQ(SampleAt({-5, -5}, MakeState(2, greedy)), 0);
  EXPECT_EQ(SampleAt({-0.0f, 0.0f}, MakeState(2, greedy)), 0);
  // Which parameters count as greedy, where truncation has no effect.
  EXPECT_EQ(SampleAt({1, 1.0001f}, MakeState(2, {.temperature = 0.9e-5})), 1);
  EXPECT_EQ(SampleAt({1, 1}, MakeState(2, {.temperature = 0, .top_p = 0.1, .top_k = 1})), 0);
}

TEST(Greedy, ComesAfterBiasAndPenalties) {
  EXPECT_EQ(SampleAt({1, 3}, MakeState(2, {.temperature = 0, .logit_bias = {{0, 2.5}}})), 0);
  EXPECT_EQ(SampleAt({1, 1.5}, MakeState(2, {.temperature = 0, .presence_penalty = 1}, {}, {1})),
            0);
}

TEST(Greedy, TopPOfZeroLeavesTheBestToken) {
  const SamplingParameters parameters{.temperature = 2, .top_p = 0};
  for (std::int64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(SampleAt({1, 1.1f, 1.1f, 1}, MakeState(4, parameters), position), 1);
  }
}

// The reasoning has 2 tokens; token 3 ends it.
TEST(Budget, EndsTheReasoningOnceAndThere) {
  const SamplingParameters parameters{.temperature = 0,
                                      .reasoning_budget = TokenBudget{.n_tokens = 2, .end = 3}};
  const std::vector<float> logits = {9, 0, 0, -9};
  const std::vector<Token> prompt = {1, 3, 2};  // of an earlier turn
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt), 3), 0);
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt, {0}), 4), 0);
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt, {0, 0}), 5), 3);
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt, {0, 0, 3}), 6), 0);
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt, {3, 0}), 5), 0) << "it has ended";
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt), 5), 3) << "a draft ahead";
  EXPECT_EQ(SampleAt(logits, MakeState(4, parameters, prompt), 6), 0) << "a draft behind that";
}

TEST(Budget, OfNothingEndsTheReasoningAtOnce) {
  const SamplingParameters parameters{
      .top_logprobs = 1, .min_tokens = 5, .reasoning_budget = TokenBudget{.n_tokens = 0, .end = 0}};
  const SamplerState state = MakeState(2, parameters, {1}, {}, {0});
  Sampler sampler(2);
  TokenLogprobs logprobs;
  const Result<Token> token = sampler.Sample(std::vector<float>{0, 0}, state, 1, logprobs);
  EXPECT_EQ(token.value_or(-1), 0);
  EXPECT_EQ(logprobs.chosen.token, 0);
  EXPECT_NEAR(logprobs.chosen.logprob, std::log(0.5), 1e-6) << "of the model";
}

TEST(Process, RepetitionCoversPromptAndOutput) {
  const SamplingParameters parameters{.repetition_penalty = 2};
  EXPECT_EQ(Processed({4, -4, 4, -4, 0}, MakeState(5, parameters, {0, 1, 4}, {1, 3, 3})),
            (std::vector<float>{2, -8, 4, -8, 0}));
}

TEST(Process, FrequencyAndPresenceCoverTheOutputOnly) {
  const SamplingParameters parameters{.presence_penalty = 0.5, .frequency_penalty = 0.25};
  EXPECT_EQ(Processed({1, 1, 1, 1}, MakeState(4, parameters, {0, 1, 1}, {1, 2, 2, 2})),
            (std::vector<float>{1, 0.25f, -0.25f, 1}));
}

TEST(Process, BiasComesFirstAndIsLimited) {
  SamplingParameters parameters{.repetition_penalty = 2};
  parameters.logit_bias = {{0, 6.0}, {1, -6.0}, {2, 1000.0}, {3, -INFINITY}};
  EXPECT_EQ(Processed({-2, 2, 0, 0, 8}, MakeState(5, parameters, {0, 1, 4})),
            (std::vector<float>{2, -8, 100, -100, 4}));
}

TEST(Process, MinTokensMasksEosAndStopTokens) {
  const SamplingParameters parameters{.min_tokens = 2, .stop_tokens = {2}};
  EXPECT_EQ(Processed({1, 1, 1}, MakeState(3, parameters, {}, {0}, {1})),
            (std::vector<float>{1, -kInfinity, -kInfinity}));
  EXPECT_EQ(Processed({1, 1, 1}, MakeState(3, parameters, {}, {0, 0}, {1})),
            (std::vector<float>{1, 1, 1}));
  SamplingParameters ignoring = parameters;
  ignoring.ignore_eos = true;  // EOS does not end the answer, so it is not excluded
  EXPECT_EQ(Processed({1, 1, 1}, MakeState(3, ignoring, {}, {0}, {1})),
            (std::vector<float>{1, 1, -kInfinity}));
}

TEST(SamplerState, EndsAtEosAndStopTokens) {
  EXPECT_TRUE(MakeState(9, {.stop_tokens = {5}}, {}, {}, {1, 2}).Ends(5));
  EXPECT_TRUE(MakeState(9, {.stop_tokens = {5}}, {}, {}, {1, 2}).Ends(2));
  EXPECT_FALSE(MakeState(9, {.stop_tokens = {5}}, {}, {}, {1, 2}).Ends(3));
  EXPECT_FALSE(MakeState(9, {.ignore_eos = true}, {}, {}, {1}).Ends(1));
}

TEST(SamplerState, BeginForgets) {
  const SamplingParameters parameters{.repetition_penalty = 2, .presence_penalty = 1};
  SamplerState state = MakeState(3, parameters, {0}, {1, 1});
  state.Begin(parameters, 0, std::vector<Token>{2}, {});
  EXPECT_EQ(state.n_generated(), 0);
  EXPECT_EQ(Processed({4, 4, 4}, state), (std::vector<float>{4, 4, 2}));
}

// The definition of a draw, token by token and without shortcuts.
Token NaiveDraw(const std::vector<float>& logits, const SamplingParameters& parameters,
                std::uint64_t seed, std::int64_t position) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double best_score = -INFINITY;
  Token best = -1;
  for (std::uint32_t id = 0; id < logits.size(); ++id) {
    const auto bits =
        Philox({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
               {static_cast<std::uint32_t>(position), parameters.choice, 0, id / 4});
    const float z = (logits[id] - largest) / static_cast<float>(parameters.temperature);
    const double score = double{z} + Gumbel(bits[id % 4]);
    if (score > best_score) {
      best_score = score;
      best = static_cast<Token>(id);
    }
  }
  return best;
}

std::vector<float> RandomLogits(std::size_t count, std::uint64_t seed, float spread) {
  std::vector<float> logits;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto bits = Philox({static_cast<std::uint32_t>(seed), 99}, {i, 0, 0, 0})[0];
    logits.push_back(spread * static_cast<float>(bits) * 0x1p-32f);
  }
  return logits;
}

TEST(Draw, ShortcutsChangeNothing) {
  for (std::int64_t position = 0; position < 300; ++position) {
    const float spread = static_cast<float>(position % 60);
    const auto logits = RandomLogits(1003, static_cast<std::uint64_t>(position), spread);
    const SamplingParameters parameters{.temperature = 1.3,
                                        .choice = static_cast<std::uint32_t>(position % 3)};
    SamplerState state(1003);
    state.Begin(parameters, 0x123456789abcdef, {}, {});
    const Token expected = NaiveDraw(logits, parameters, 0x123456789abcdef, position);
    ASSERT_EQ(SampleAt(logits, state, position), expected) << position;
    // Truncation that keeps everything goes another way to the same token.
    SamplingParameters all = parameters;
    all.top_k = 1003;
    state.Begin(all, 0x123456789abcdef, {}, {});
    ASSERT_EQ(SampleAt(logits, state, position), expected) << position;
  }
}

TEST(Draw, DependsOnSeedPositionAndChoiceAlone) {
  const std::vector<float> logits = RandomLogits(500, 3, 2);
  const auto draw_40 = [&](const SamplerState& state) {
    std::vector<Token> tokens;
    for (std::int64_t position = 100; position < 140; ++position) {
      tokens.push_back(SampleAt(logits, state, position));
    }
    return tokens;
  };
  const auto reference = draw_40(MakeState(500, {.seed = 5}));
  EXPECT_EQ(draw_40(MakeState(500, {.seed = 5}, {1, 2, 3}, {4, 5})), reference);
  EXPECT_NE(draw_40(MakeState(500, {.seed = 6})), reference);
  EXPECT_NE(draw_40(MakeState(500, {.seed = std::uint64_t{5} + (std::uint64_t{1} << 32)})),
            reference);
  EXPECT_NE(draw_40(MakeState(500, {.seed = 5, .choice = 1})), reference);
  // One sampler, positions in descending order.
  const SamplerState state = MakeState(500, {.seed = 5});
  Sampler sampler(500);
  TokenLogprobs logprobs;
  for (std::int64_t i = 39; i >= 0; --i) {
    EXPECT_EQ(*sampler.Sample(logits, state, 100 + i, logprobs),
              reference[static_cast<std::size_t>(i)]);
  }
}

TEST(Draw, ExtremeLogitsAndTemperatures) {
  EXPECT_EQ(SampleAt({-3e38f, 3e38f, -3e38f}, MakeState(3, {.temperature = 2e-5})), 1);
  EXPECT_EQ(SampleAt({-3e38f, 3e38f, 0}, MakeState(3, {.temperature = 2e-5, .top_p = 0.9})), 1);
}

TEST(Sample, FillsRawLogprobs) {
  SamplingParameters parameters{.temperature = 0, .top_logprobs = 2};
  parameters.logit_bias = {{2, 50.0}};
  const SamplerState state = MakeState(3, parameters);
  Sampler sampler(3);
  TokenLogprobs logprobs;
  const std::vector<float> logits = {std::log(5.0f), std::log(3.0f), std::log(2.0f)};
  ASSERT_EQ(*sampler.Sample(logits, state, 0, logprobs), 2);
  EXPECT_EQ(logprobs.chosen.token, 2);
  EXPECT_NEAR(logprobs.chosen.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(logprobs.top.size(), 2u);
  EXPECT_EQ(logprobs.top[0].token, 0);
  EXPECT_NEAR(logprobs.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_NEAR(logprobs.top[1].logprob, std::log(0.3), 1e-6);
}

TEST(Sample, NotFiniteIsAnError) {
  Sampler sampler(3);
  TokenLogprobs logprobs;
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const double temperature : {0.0, 1.0}) {
      const std::vector<float> logits = {0, 1, bad};
      const auto token =
          sampler.Sample(logits, MakeState(3, {.temperature = temperature}), 42, logprobs);
      ASSERT_FALSE(token);
      EXPECT_THAT(token.error().message,
                  AllOf(HasSubstr("position 42"), HasSubstr("token 2"), HasSubstr("finite")));
    }
  }
}

TEST(Sample, NoTokenLeftIsAnError) {
  Sampler sampler(2);
  TokenLogprobs logprobs;
  const auto token =
      sampler.Sample(std::vector<float>{0, 1},
                     MakeState(2, {.min_tokens = 1, .stop_tokens = {0, 1}}), 3, logprobs);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::kInvalidArgument);
}

// A masked token is never drawn, whatever the temperature.
TEST(Sample, MaskedTokensAreNeverDrawn) {
  for (const double top_p : {0.999, 1.0}) {
    const SamplerState state =
        MakeState(3, {.temperature = 2, .top_p = top_p, .min_tokens = 1, .stop_tokens = {1}});
    for (std::int64_t position = 0; position < 2000; ++position) {
      ASSERT_NE(SampleAt({0, 9, 0}, state, position), 1);
    }
  }
}

// Every combination of what stands between logits and token, one bit each.
SamplingParameters Combination(unsigned bits) {
  SamplingParameters parameters{.seed = 77};
  if (bits & 1) parameters.temperature = 0;
  if (bits & 2) parameters.top_p = 0.8;
  if (bits & 4) parameters.top_k = 40;
  if (bits & 8) parameters.min_p = 0.02;
  if (bits & 16) parameters.repetition_penalty = 1.3;
  if (bits & 32) parameters.frequency_penalty = 0.4;
  if (bits & 64) parameters.presence_penalty = 0.7;
  if (bits & 128) parameters.logit_bias = {{2, 3.0}, {9, -50.0}};
  if (bits & 256) {
    parameters.min_tokens = 5;
    parameters.stop_tokens = {1, 4};
  }
  if (bits & 512) parameters.top_logprobs = 3;
  return parameters;
}

TEST(Draft, ChoosesWhatSampleChooses) {
  Sampler sampler(101);
  TokenLogprobs logprobs;
  std::int64_t n_not_largest = 0;
  for (unsigned bits = 0; bits < 1024; ++bits) {
    const SamplerState state = MakeState(101, Combination(bits), {1, 2, 3}, {3, 5}, {0});
    for (std::int64_t position = 5; position < 15; ++position) {
      const auto logits = RandomLogits(101, bits * 100 + static_cast<std::uint64_t>(position), 5);
      const Result<Token> sampled = sampler.Sample(logits, state, position, logprobs);
      const Result<Token> drafted = sampler.Draft(logits, state, position);
      ASSERT_TRUE(sampled && drafted) << bits;
      ASSERT_EQ(*drafted, *sampled) << bits << " at " << position;
      const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
      n_not_largest += *drafted != largest;
    }
  }
  EXPECT_GT(n_not_largest, 1000);  // not always the greedy choice
}

TEST(Draft, HasTheErrorsOfSample) {
  Sampler sampler(2);
  const std::vector<float> bad = {0, kInfinity};
  EXPECT_EQ(sampler.Draft(bad, MakeState(2, {}), 1).error().code, ErrorCode::kInvalidData);
  const SamplerState closed = MakeState(2, {.min_tokens = 1, .stop_tokens = {0, 1}});
  EXPECT_EQ(sampler.Draft(std::vector<float>{0, 1}, closed, 1).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace fathom::engine
