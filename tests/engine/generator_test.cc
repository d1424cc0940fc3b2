#include "engine/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/fake_model.h"

namespace fathom {
namespace {

using ::fathom::testing::FakeModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ModelLimits kLimits = {.vocab_size = 50,
                                 .max_sequences = 2,
                                 .max_context = 200,
                                 .max_batch_tokens = 16,
                                 .rollback_tokens = 8};

std::vector<Token> MakePrompt(int count, Token first = 3) {
  std::vector<Token> prompt;
  for (int i = 0; i < count; ++i) {
    prompt.push_back((first + 7 * i) % 50);
  }
  return prompt;
}

// Token 0 is "a", 1 is "b", ... 26 "a" again.
std::string_view Letter(Token token) {
  return std::string_view("abcdefghijklmnopqrstuvwxyz")
      .substr(static_cast<std::size_t>(token % 26), 1);
}

std::vector<Token> Concatenate(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The tokens of a generator that has not been used.
std::vector<Token> FreshRun(const std::vector<Token>& prompt, const SamplingParameters& parameters,
                            ModelLimits limits = kLimits) {
  FakeModel model(limits);
  Generator generator(model, {});
  const auto result = generator.Generate(prompt, parameters);
  EXPECT_TRUE(result);
  return result ? result->tokens : std::vector<Token>{};
}

TEST(Generator, ReportsEveryTokenOnce) {
  FakeModel model(kLimits);
  Generator generator(model, {.token_bytes = Letter});
  const std::vector<Token> prompt = MakePrompt(20);
  std::vector<Token> tokens;
  std::string text;
  int n_finished = 0;
  const auto on_token = [&](const TokenEvent& event) {
    EXPECT_EQ(event.index, static_cast<std::int64_t>(tokens.size()));
    EXPECT_EQ(event.position, 20 + event.index);
    EXPECT_EQ(event.logprobs, nullptr);
    tokens.push_back(event.token);
    text += event.text;
    if (event.finish) ++n_finished;
    return true;
  };
  const auto result =
      generator.Generate(prompt, {.seed = 1, .max_tokens = 12}, {.on_token = on_token});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tokens, tokens);
  EXPECT_EQ(tokens.size(), 12u);
  EXPECT_EQ(result->finish, FinishReason::kLength);
  EXPECT_EQ(n_finished, 1);
  std::string expected;
  for (const Token token : tokens) {
    expected += Letter(token);
  }
  EXPECT_EQ(text, expected);
  EXPECT_EQ(result->seed, 1u);
  EXPECT_EQ(result->timings.prompt_tokens, 20);
  EXPECT_EQ(result->timings.reused_tokens, 0);
  EXPECT_EQ(result->timings.generated_tokens, 12);
  EXPECT_GT(result->timings.prefill_seconds, 0);
  EXPECT_GT(result->timings.decode_seconds, 0);
  // 20 tokens in chunks of 16, then 11 single ones: the last token is not run.
  EXPECT_EQ(model.n_forwards, 2 + 11);
  EXPECT_EQ(model.n_tokens, 20 + 11);
  tokens.pop_back();
  EXPECT_EQ(std::vector<Token>(generator.cached_tokens().begin(), generator.cached_tokens().end()),
            Concatenate(prompt, tokens));
}

TEST(Generator, ChunkSizeChangesNothing) {
  const SamplingParameters parameters{.seed = 9, .max_tokens = 30};
  const auto reference = FreshRun(MakePrompt(100), parameters);
  for (const std::int64_t chunk : {1, 2, 7, 64, 99, 100, 128}) {
    ModelLimits limits = kLimits;
    limits.max_batch_tokens = chunk;
    EXPECT_EQ(FreshRun(MakePrompt(100), parameters, limits), reference) << chunk;
  }
}

TEST(Generator, SameSeedSameAnswer) {
  const auto prompt = MakePrompt(10);
  const auto reference = FreshRun(prompt, {.seed = 9, .max_tokens = 30});
  EXPECT_EQ(FreshRun(prompt, {.seed = 9, .max_tokens = 30}), reference);
  EXPECT_NE(FreshRun(prompt, {.seed = 10, .max_tokens = 30}), reference);
  EXPECT_NE(FreshRun(prompt, {.seed = 9, .choice = 1, .max_tokens = 30}), reference);
}

// Without a seed one is drawn, and reported so that the answer can be had again.
TEST(Generator, DrawnSeedIsReported) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const auto first = generator.Generate(MakePrompt(10), {.max_tokens = 30});
  const auto second = generator.Generate(MakePrompt(10), {.max_tokens = 30});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->seed, second->seed);
  EXPECT_NE(first->tokens, second->tokens);
  EXPECT_EQ(FreshRun(MakePrompt(10), {.seed = first->seed, .max_tokens = 30}), first->tokens);
}

TEST(Generator, NextTurnContinuesInTheCache) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const SamplingParameters parameters{.seed = 4, .max_tokens = 10};
  std::vector<Token> conversation;
  for (int turn = 0; turn < 4; ++turn) {
    const auto cached = static_cast<std::int64_t>(generator.cached_tokens().size());
    conversation = Concatenate(conversation, MakePrompt(15, turn));
    const std::int64_t n_before = model.n_tokens;
    const auto result = generator.Generate(conversation, parameters);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->timings.reused_tokens, cached);
    EXPECT_EQ(model.n_tokens - n_before,
              static_cast<std::int64_t>(conversation.size()) - cached + 9);
    EXPECT_EQ(result->tokens, FreshRun(conversation, parameters)) << turn;
    conversation = Concatenate(conversation, result->tokens);
  }
}

TEST(Generator, PromptsThatDifferInTheNewestTokensRollBack) {
  const SamplingParameters parameters{.temperature = 0, .max_tokens = 1};
  for (int changed = 1; changed <= 12; ++changed) {
    FakeModel model(kLimits);
    Generator generator(model, {});
    std::vector<Token> prompt = MakePrompt(40);
    ASSERT_TRUE(generator.Generate(prompt, parameters));
    Token& token = prompt[static_cast<std::size_t>(40 - changed)];
    token = (token + 1) % 50;
    const auto result = generator.Generate(prompt, parameters);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->timings.reused_tokens, changed <= 8 ? 40 - changed : 0);
    EXPECT_EQ(result->tokens, FreshRun(prompt, parameters));
  }
}

// Going back twice must not reach further than once: older keys have been overwritten.
TEST(Generator, RollingBackTwiceIsCountedFromTheFurthestPosition) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const SamplingParameters parameters{.temperature = 0, .max_tokens = 1};
  const std::vector<Token> prompt = MakePrompt(40);
  const std::span<const Token> all = prompt;
  ASSERT_TRUE(generator.Generate(all, parameters));
  EXPECT_EQ(generator.Generate(all.first(35), parameters)->timings.reused_tokens, 34);
  EXPECT_EQ(generator.Generate(all.first(33), parameters)->timings.reused_tokens, 32);
  EXPECT_EQ(generator.Generate(all.first(31), parameters)->timings.reused_tokens, 0);
  EXPECT_EQ(generator.Generate(all.first(30), parameters)->timings.reused_tokens, 29);
}

TEST(Generator, SamePromptAgainComputesItsLastToken) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const SamplingParameters parameters{.seed = 2, .max_tokens = 1};
  const auto first = generator.Generate(MakePrompt(40), parameters);
  const auto second = generator.Generate(MakePrompt(40), parameters);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->timings.reused_tokens, 39);
  EXPECT_EQ(second->tokens, first->tokens);
}

TEST(Generator, SequencesDoNotMix) {
  FakeModel model(kLimits);
  Generator first(model, {.sequence = 0});
  Generator second(model, {.sequence = 1});
  const SamplingParameters parameters{.seed = 2, .max_tokens = 9};
  const auto a = first.Generate(MakePrompt(20, 1), parameters);
  const auto b = second.Generate(MakePrompt(30, 2), parameters);
  ASSERT_TRUE(a && b);
  const auto longer = Concatenate(Concatenate(MakePrompt(20, 1), a->tokens), {5, 6});
  const auto c = first.Generate(longer, parameters);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->timings.reused_tokens, 28);
  EXPECT_EQ(b->tokens, FreshRun(MakePrompt(30, 2), parameters));
  EXPECT_EQ(c->tokens, FreshRun(longer, parameters));
}

// The first token of `tokens` that did not occur before, from `from` on.
std::size_t FirstNewToken(const std::vector<Token>& tokens, std::size_t from) {
  const auto occurred = [&](std::size_t i) {
    return std::find(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i), tokens[i]) !=
           tokens.begin() + static_cast<std::ptrdiff_t>(i);
  };
  while (occurred(from)) ++from;
  return from;
}

TEST(Generator, StopsAtEosAndStopTokens) {
  const SamplingParameters parameters{.seed = 3, .max_tokens = 30};
  const auto all = FreshRun(MakePrompt(10), parameters);
  const std::size_t end = FirstNewToken(all, 5);
  const std::vector<Token> expected(all.begin(),
                                    all.begin() + static_cast<std::ptrdiff_t>(end) + 1);
  for (const bool as_eos : {true, false}) {
    FakeModel model(kLimits);
    GeneratorOptions options{.token_bytes = Letter};
    SamplingParameters stopping = parameters;
    (as_eos ? options.eos_tokens : stopping.stop_tokens) = {all[end]};
    Generator generator(model, options);
    std::string last_text = "not reported";
    const auto on_token = [&](const TokenEvent& event) {
      if (event.finish) last_text = event.text;
      return true;
    };
    const auto result = generator.Generate(MakePrompt(10), stopping, {.on_token = on_token});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->finish, FinishReason::kStop);
    EXPECT_EQ(result->tokens, expected);
    EXPECT_EQ(last_text, "");
    stopping.ignore_eos = true;
    const auto ignoring = generator.Generate(MakePrompt(10), stopping);
    ASSERT_TRUE(ignoring);
    EXPECT_EQ(ignoring->tokens, as_eos ? all : expected);
  }
}

TEST(Generator, MinTokensKeepsEosAway) {
  SamplingParameters parameters{.seed = 3, .max_tokens = 40};
  const auto all = FreshRun(MakePrompt(10), parameters);
  parameters.min_tokens = 25;
  FakeModel model(kLimits);
  Generator generator(model, {.eos_tokens = {all[0], all[1]}});
  const auto result = generator.Generate(MakePrompt(10), parameters);
  ASSERT_TRUE(result);
  ASSERT_GE(result->tokens.size(), 26u);
  for (std::size_t i = 0; i < 25; ++i) {
    EXPECT_NE(result->tokens[i], all[0]);
    EXPECT_NE(result->tokens[i], all[1]);
  }
}

TEST(Generator, StopStringCutsTheTextAndHoldsItBack) {
  const SamplingParameters parameters{.seed = 3, .max_tokens = 30};
  const auto all = FreshRun(MakePrompt(10), parameters);
  std::string text;
  for (const Token token : all) {
    text += Letter(token);
  }
  const std::string stop = text.substr(9, 3);
  const std::size_t place = text.find(stop);
  FakeModel model(kLimits);
  Generator generator(model, {.token_bytes = Letter});
  SamplingParameters stopping = parameters;
  stopping.stop_strings = {"never", stop};
  std::string returned;
  const auto on_token = [&](const TokenEvent& event) {
    returned += event.text;
    return true;
  };
  const auto result = generator.Generate(MakePrompt(10), stopping, {.on_token = on_token});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::kStopString);
  EXPECT_EQ(result->stop_string, 1u);
  EXPECT_EQ(returned, text.substr(0, place));
  EXPECT_EQ(result->tokens.size(), place + 3);
  // Held back to the end, and not lost.
  returned.clear();
  stopping.stop_strings = {text.substr(27) + "!"};
  const auto unstopped = generator.Generate(MakePrompt(10), stopping, {.on_token = on_token});
  ASSERT_TRUE(unstopped);
  EXPECT_EQ(unstopped->finish, FinishReason::kLength);
  EXPECT_EQ(returned, text);
}

TEST(Generator, CallbackCancels) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const auto on_token = [](const TokenEvent& event) { return event.index < 4; };
  const SamplingParameters parameters{.seed = 3, .max_tokens = 30};
  const auto result = generator.Generate(MakePrompt(10), parameters, {.on_token = on_token});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_EQ(result->tokens.size(), 5u);
  // The cache can be continued.
  const auto next = Concatenate(Concatenate(MakePrompt(10), result->tokens), {8});
  const auto continued = generator.Generate(next, parameters);
  ASSERT_TRUE(continued);
  EXPECT_EQ(continued->timings.reused_tokens, 14);
  EXPECT_EQ(continued->tokens, FreshRun(next, parameters));
}

TEST(Generator, CancellingLosesNoText) {
  const auto all = FreshRun(MakePrompt(10), {.seed = 3, .max_tokens = 5});
  std::string text;
  for (const Token token : all) {
    text += Letter(token);
  }
  FakeModel model(kLimits);
  Generator generator(model, {.token_bytes = Letter});
  std::string returned;
  const auto on_token = [&](const TokenEvent& event) {
    returned += event.text;
    return event.index < 4;
  };
  const auto result = generator.Generate(
      MakePrompt(10), {.seed = 3, .max_tokens = 30, .stop_strings = {text.substr(2) + "!"}},
      {.on_token = on_token});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_EQ(returned, text.substr(0, 2));
  EXPECT_EQ(result->unreported_text, text.substr(2));
}

TEST(Generator, FlagCancelsBeforeAndBetweenTokens) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  std::atomic<bool> cancel = true;
  const SamplingParameters parameters{.seed = 3, .max_tokens = 30};
  const auto result = generator.Generate(MakePrompt(40), parameters, {.cancel = &cancel});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_TRUE(result->tokens.empty());
  EXPECT_EQ(model.n_forwards, 0);
  cancel = false;
  const auto on_token = [&](const TokenEvent& event) {
    cancel = event.index == 2;
    return true;
  };
  const auto later =
      generator.Generate(MakePrompt(40), parameters, {.on_token = on_token, .cancel = &cancel});
  ASSERT_TRUE(later);
  EXPECT_EQ(later->finish, FinishReason::kCancelled);
  EXPECT_EQ(later->tokens.size(), 3u);
}

TEST(Generator, LengthLimits) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const auto until_full = generator.Generate(MakePrompt(190), {.seed = 1});
  ASSERT_TRUE(until_full);
  EXPECT_EQ(until_full->tokens.size(), 10u);
  EXPECT_EQ(until_full->finish, FinishReason::kLength);
  const auto full = generator.Generate(MakePrompt(200), {.seed = 1});
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->tokens.empty());
  EXPECT_EQ(full->finish, FinishReason::kLength);
  // No tokens wanted: the cache is filled all the same.
  const auto warmed = generator.Generate(MakePrompt(50, 1), {.seed = 1, .max_tokens = 0});
  ASSERT_TRUE(warmed);
  EXPECT_TRUE(warmed->tokens.empty());
  EXPECT_EQ(generator.cached_tokens().size(), 50u);
}

TEST(Generator, LogprobsComeWithEveryToken) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  int n_events = 0;
  const auto on_token = [&](const TokenEvent& event) {
    ++n_events;
    EXPECT_NE(event.logprobs, nullptr);
    EXPECT_EQ(event.logprobs->chosen.token, event.token);
    EXPECT_EQ(event.logprobs->top.size(), 3u);
    EXPECT_EQ(event.logprobs->top[0].token, event.token);  // greedy
    EXPECT_EQ(event.logprobs->top[0].logprob, event.logprobs->chosen.logprob);
    return true;
  };
  ASSERT_TRUE(generator.Generate(MakePrompt(9),
                                 {.temperature = 0, .top_logprobs = 3, .max_tokens = 6},
                                 {.on_token = on_token}));
  EXPECT_EQ(n_events, 6);
}

TEST(Generator, WrongRequests) {
  FakeModel model(kLimits);
  Generator generator(model, {});
  const auto message = [&](const std::vector<Token>& prompt,
                           const SamplingParameters& parameters = {}) {
    const auto result = generator.Generate(prompt, parameters);
    return result ? std::string("no error") : result.error().message;
  };
  EXPECT_THAT(message({}), AllOf(HasSubstr("prompt"), HasSubstr("at least 1")));
  EXPECT_THAT(message(MakePrompt(201)), AllOf(HasSubstr("200"), HasSubstr("201")));
  EXPECT_THAT(message({1, 2, 50}),
              AllOf(HasSubstr("0 to 49"), HasSubstr("found 50 at position 2")));
  EXPECT_THAT(message({-1}), AllOf(HasSubstr("0 to 49"), HasSubstr("found -1 at position 0")));
  EXPECT_THAT(message({1}, {.top_p = 2}), HasSubstr("top_p"));
  EXPECT_THAT(message({1}, {.stop_strings = {"x"}}), HasSubstr("stop_strings"));
  EXPECT_EQ(model.n_forwards, 0);
}

TEST(Generator, GoesOnAfterAModelError) {
  const SamplingParameters parameters{.seed = 1, .max_tokens = 9};
  for (const std::int64_t failing : {0, 1, 2, 5}) {
    FakeModel model(kLimits);
    model.fail_at_forward = failing;
    Generator generator(model, {});
    const auto failed = generator.Generate(MakePrompt(40), parameters);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "the fake model fails as told");
    model.fail_at_forward = -1;
    const auto result = generator.Generate(MakePrompt(40), parameters);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->tokens, FreshRun(MakePrompt(40), parameters));
  }
}

TEST(Generator, NanLogitsEndTheRequestWithAnError) {
  FakeModel model(kLimits);
  model.nan_at_forward = 5;  // 3 chunks and 2 tokens
  Generator generator(model, {});
  const auto result = generator.Generate(MakePrompt(40), {.seed = 1, .max_tokens = 9});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("position 42"), HasSubstr("token 1")));
}

}  // namespace
}  // namespace fathom
