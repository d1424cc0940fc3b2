// Log-probabilities of the prompt: those of the model alone, however the prompt was read.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "tests/engine/core_fixture.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kWindow = 128;

class PromptLogprobs : public CoreFixture, public ::testing::Test {
 protected:
  void SetUp() override { Make({.limits = kFew}); }

  static constexpr ModelLimits kFew = {.vocab_size = kVocabulary,
                                       .max_sequences = 4,
                                       .max_context = 1000,
                                       .max_batch_tokens = 100,
                                       .max_logit_rows = 7,
                                       .rollback_tokens = 8};

  static Request Scored(std::vector<Token> prompt, std::int64_t max_tokens, int n_choices = 1) {
    return {.prompt = std::move(prompt),
            .sampling = {.seed = 1, .max_tokens = max_tokens},
            .n_choices = n_choices,
            .prompt_logprobs = 2};
  }

  // Expects the scores that the model gives to each token behind those before it.
  static void ExpectScores(const std::vector<Token>& prompt, const RequestStats& stats) {
    ASSERT_NE(stats.prompt_logprobs, nullptr);
    const std::vector<TokenLogprobs>& scores = *stats.prompt_logprobs;
    ASSERT_EQ(scores.size(), prompt.size() - 1);
    for (std::size_t i = 1; i < prompt.size(); ++i) {
      const std::vector<float> logits =
          FakeModel::Expected(std::span(prompt).first(i), kVocabulary, kWindow);
      TokenLogprobs expected;
      ASSERT_TRUE(
          Sampler::Score(logits, prompt[i], static_cast<std::int64_t>(i), 2, expected).has_value());
      const TokenLogprobs& found = scores[i - 1];
      EXPECT_EQ(found.chosen.token, prompt[i]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(found.chosen.logprob),
                std::bit_cast<std::uint32_t>(expected.chosen.logprob))
          << i;
      EXPECT_EQ(found.rank, expected.rank);
      ASSERT_EQ(found.top.size(), 2u);
      EXPECT_EQ(found.top[1].token, expected.top[1].token);
    }
  }
};

TEST_F(PromptLogprobs, AreThoseOfTheModelAlone) {
  for (const std::int64_t n : {1, 2, 7, 8, 99, 100, 101, 129, 300}) {
    const std::vector<Token> prompt = Text(n, n);
    TokenStream stream = Submit(Scored(prompt, 3));
    RunAll();
    EXPECT_EQ(Answer(stream).size(), 3u);
    ExpectScores(prompt, stream.stats());
  }
}

TEST_F(PromptLogprobs, ComputeWhatIsCached) {
  const std::vector<Token> prompt = Text(400);
  TokenStream plain = Submit(prompt, 5);
  RunAll();
  TokenStream scored = Submit(Scored(prompt, 5));
  RunAll();
  ExpectScores(prompt, scored.stats());
  EXPECT_EQ(scored.stats().cached_tokens, 0);
  EXPECT_EQ(Answer(scored), Answer(plain));
  TokenStream again = Submit(prompt, 5);
  RunAll();
  EXPECT_EQ(again.stats().cached_tokens, 384);
  EXPECT_EQ(again.stats().prompt_logprobs, nullptr) << "not asked for";
}

TEST_F(PromptLogprobs, AreCompleteAtTheFirstEvent) {
  for (const std::int64_t max_tokens : {0, 1, 4}) {
    const std::vector<Token> prompt = Text(150, 3 + max_tokens);
    TokenStream stream = Submit(Scored(prompt, max_tokens, 3));
    StreamEvent event;
    while (!stream.NextFor(std::chrono::milliseconds(0), event)) core_->Step();
    EXPECT_EQ(stream.stats().prompt_tokens, 150);
    ExpectScores(prompt, stream.stats());
    RunAll();
  }
}

TEST_F(PromptLogprobs, OfLogitsThatAreNoNumbersAreAnErrorOfAllChoices) {
  for (const std::int64_t max_tokens : {0, 4}) {
    model_->nan_at_forward = model_->n_forwards + 1;
    TokenStream stream = Submit(Scored(Text(300, 9 + max_tokens), max_tokens, 2));
    RunAll();
    StreamEvent event;
    int n_errors = 0;
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      n_errors += event.finish == FinishReason::kError && event.error ? 1 : 0;
      EXPECT_EQ(event.token, StreamEvent::kNoToken);
    }
    EXPECT_GE(n_errors, max_tokens == 0 ? 1 : 2);
  }
}

TEST_F(PromptLogprobs, HaveALimit) {
  Request request = Scored(Text(5), 1);
  for (const int count : {-1, kMaxTopLogprobs + 1}) {
    request.prompt_logprobs = count;
    const auto refused = core_->Prepare(request, waker_);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.starts_with("prompt_logprobs: expected 0 to 20, found"));
  }
}

}  // namespace
}  // namespace fathom::testing
