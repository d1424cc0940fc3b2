// One request in the engine: every token once, the certain text, the reason of its end; and the
// effects of its reader. schedule_test.cc tests many requests.
#include "engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/engine/one_request.h"

namespace fathom::engine {
namespace {

using ::fathom::testing::Answer;
using ::fathom::testing::Expected;
using ::fathom::testing::FakeModel;
using ::fathom::testing::FakeModelOptions;
using ::fathom::testing::kLimits;
using ::fathom::testing::Letter;
using ::fathom::testing::MakePrompt;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string DecodeTokens(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) {
    text += Letter(token);
  }
  return text;
}

std::vector<Token> Concatenate(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The core with a fake model, driven step by step.
class Bench {
 public:
  // Sees every event; may cancel.
  using OnEvent = std::function<void(const StreamEvent&, TokenStream&)>;

  explicit Bench(EngineOptions options = {.token_bytes = Letter})
      : Bench(std::move(options), FakeModelOptions{.limits = kLimits}) {}
  Bench(EngineOptions options, ModelLimits limits)
      : Bench(std::move(options), FakeModelOptions{.limits = limits}) {}
  Bench(EngineOptions options, const FakeModelOptions& model_options)
      : model(model_options), core(*EngineCore::Create(model, options, metrics)) {}

  Result<Answer> Generate(const Request& request, const OnEvent& on_event = {}) {
    auto state = core->Prepare(request, std::make_shared<Waker>());
    if (!state) return Unexpected(state.error());
    TokenStream stream((*state)->stream);
    core->Add(*std::move(state));
    Answer answer;
    StreamEvent event;
    while (true) {
      const std::optional<bool> next = stream.NextFor(std::chrono::milliseconds(0), event);
      if (!next) {
        EXPECT_NE(core->Step(), StepOutcome::kStalled);
      } else if (*next) {
        answer.Add(event);
        if (on_event) on_event(event, stream);
      } else {
        break;
      }
    }
    answer.stats = stream.stats();
    EXPECT_EQ(answer.n_finished, 1);
    EXPECT_EQ(core->n_requests(), 0);
    EXPECT_TRUE(core->caches().IsConsistent());
    return answer;
  }

  FakeModel model;
  EngineMetrics metrics;
  std::unique_ptr<EngineCore> core;
};

TEST(EngineCoreTest, EveryTokenIsReportedOnce) {
  Bench bench;
  const Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 12}};
  const auto answer = bench.Generate(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->tokens, Expected(request).tokens);
  EXPECT_EQ(answer->tokens.size(), 12u);
  EXPECT_EQ(answer->text, DecodeTokens(answer->tokens));
  EXPECT_EQ(answer->finish, FinishReason::kLength);
  EXPECT_TRUE(answer->logprobs.empty());
  const RequestStats& stats = answer->stats;
  EXPECT_EQ(stats.seed, 1u);
  EXPECT_EQ(stats.prompt_tokens, 20);
  EXPECT_EQ(stats.cached_tokens, 0);
  EXPECT_EQ(stats.generated_tokens, 12);
  EXPECT_GE(stats.queue_seconds, 0);
  EXPECT_GT(stats.prefill_seconds, 0);
  EXPECT_GT(stats.decode_seconds, 0);
  // 20 tokens in chunks of 16, then 11 single ones: the last token is not run.
  EXPECT_EQ(bench.model.n_forwards, 2 + 11);
  EXPECT_EQ(bench.model.n_tokens, 20 + 11);
}

TEST(EngineCoreTest, SizeOfStepsChangesNothing) {
  const Request request = {.prompt = MakePrompt(300), .sampling = {.seed = 9, .max_tokens = 30}};
  const std::vector<Token> expected = Expected(request).tokens;
  for (const std::int64_t size : {1, 2, 7, 64, 127, 128, 300, 512}) {
    ModelLimits limits = kLimits;
    limits.max_batch_tokens = size;
    Bench bench({}, limits);
    EXPECT_EQ(bench.Generate(request)->tokens, expected) << size;
  }
}

TEST(EngineCoreTest, SeedAndChoiceDecide) {
  Bench bench;
  const auto tokens = [&](const SamplingParameters& parameters) {
    return bench.Generate({.prompt = MakePrompt(10), .sampling = parameters})->tokens;
  };
  const auto reference = tokens({.seed = 9, .max_tokens = 30});
  EXPECT_EQ(tokens({.seed = 9, .max_tokens = 30}), reference);
  EXPECT_NE(tokens({.seed = 10, .max_tokens = 30}), reference);
  EXPECT_NE(tokens({.seed = 9, .choice = 1, .max_tokens = 30}), reference);
}

// Without a seed one is drawn, and reported so that the answer can be had again.
TEST(EngineCoreTest, DrawnSeedIsReported) {
  Bench bench;
  const Request request = {.prompt = MakePrompt(10), .sampling = {.max_tokens = 30}};
  const auto first = bench.Generate(request);
  const auto second = bench.Generate(request);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->stats.seed, second->stats.seed);
  EXPECT_NE(first->tokens, second->tokens);
  Request again = request;
  again.sampling.seed = first->stats.seed;
  EXPECT_EQ(bench.Generate(again)->tokens, first->tokens);
}

// Each turn finds the whole blocks of the turns before.
TEST(EngineCoreTest, NextTurnContinuesInTheCache) {
  Bench bench;
  std::vector<Token> conversation;
  for (int turn = 0; turn < 4; ++turn) {
    const std::int64_t n_known = std::max<std::int64_t>(std::ssize(conversation) - 1, 0);
    conversation = Concatenate(conversation, MakePrompt(75, turn));
    const std::int64_t n_before = bench.model.n_tokens;
    const Request request = {.prompt = conversation, .sampling = {.seed = 4, .max_tokens = 10}};
    const auto answer = bench.Generate(request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->stats.cached_tokens, n_known / 128 * 128) << turn;
    EXPECT_EQ(bench.model.n_tokens - n_before,
              std::ssize(conversation) - answer->stats.cached_tokens + 9);
    EXPECT_EQ(answer->tokens, Expected(request).tokens) << turn;
    conversation = Concatenate(conversation, answer->tokens);
  }
}

TEST(EngineCoreTest, SamePromptAgainComputesItsLastBlock) {
  Bench bench;
  for (const int n_prompt : {128, 129, 256, 257}) {
    Request request = {.prompt = MakePrompt(n_prompt, static_cast<Token>(n_prompt % 40)),
                       .sampling = {.seed = 2, .max_tokens = 1}};
    const auto first = bench.Generate(request);
    const auto second = bench.Generate(request);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->stats.cached_tokens, 0);
    EXPECT_EQ(second->stats.cached_tokens, (n_prompt - 1) / 128 * 128);
    EXPECT_EQ(second->tokens, first->tokens);
    // A prompt that differs in the first block shares nothing, not even later blocks.
    request.prompt[5] ^= 1;
    const auto other = bench.Generate(request);
    EXPECT_EQ(other->stats.cached_tokens, 0);
    EXPECT_EQ(other->tokens, Expected(request).tokens);
  }
}

// However long the steps that read the prompt were, and however little of it the next token sees.
TEST(EngineCoreTest, WholeBlocksCanBeSharedWhateverTheSizeOfSteps) {
  for (const std::int64_t window : {16, 64, 128}) {
    for (const std::int64_t size : {1, 100, 128, 200, 256, 300, 365, 512}) {
      ModelLimits limits = kLimits;
      limits.max_batch_tokens = size;
      Bench bench({}, FakeModelOptions{
                          .limits = limits, .sliding_window = window, .memory_bytes = 1 << 23});
      Request request = {.prompt = MakePrompt(365), .sampling = {.seed = 2, .max_tokens = 5}};
      EXPECT_EQ(bench.Generate(request)->stats.cached_tokens, 0);
      const auto again = bench.Generate(request);
      EXPECT_EQ(again->stats.cached_tokens, 256) << window << " " << size;
      request.prompt[300] ^= 1;  // all blocks but the last
      const auto longer = bench.Generate(request);
      EXPECT_EQ(longer->stats.cached_tokens, 256) << window << " " << size;
      EXPECT_EQ(longer->tokens, Expected(request, {}, window).tokens);
      request.prompt[200] ^= 1;  // the first block alone
      const auto shorter = bench.Generate(request);
      EXPECT_EQ(shorter->stats.cached_tokens, 128) << window << " " << size;
      EXPECT_EQ(shorter->tokens, Expected(request, {}, window).tokens);
    }
  }
}

TEST(EngineCoreTest, WithoutPrefixCacheNothingIsFound) {
  Bench bench({.prefix_cache = false});
  const Request request = {.prompt = MakePrompt(300), .sampling = {.seed = 2, .max_tokens = 5}};
  for (int i = 0; i < 2; ++i) {
    const auto answer = bench.Generate(request);
    EXPECT_EQ(answer->stats.cached_tokens, 0);
    EXPECT_EQ(answer->tokens, Expected(request).tokens);
  }
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

TEST(EngineCoreTest, StopsAtEosAndStopTokens) {
  const Request request = {.prompt = MakePrompt(10), .sampling = {.seed = 3, .max_tokens = 30}};
  const auto all = Expected(request).tokens;
  const std::size_t end = FirstNewToken(all, 5);
  const std::vector<Token> expected(all.begin(),
                                    all.begin() + static_cast<std::ptrdiff_t>(end) + 1);
  for (const bool as_eos : {true, false}) {
    EngineOptions options = {.token_bytes = Letter};
    Request stopping = request;
    (as_eos ? options.eos_tokens : stopping.sampling.stop_tokens) = {all[end]};
    Bench bench(options);
    const auto answer = bench.Generate(stopping);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->tokens, expected);
    EXPECT_EQ(answer->finish, FinishReason::kStop);
    EXPECT_EQ(answer->text, DecodeTokens({expected.begin(), expected.end() - 1}))
        << "the token that ends has no text";
    stopping.sampling.ignore_eos = true;
    EXPECT_EQ(bench.Generate(stopping)->tokens.size(), as_eos ? 30u : expected.size());
    stopping.sampling.ignore_eos = false;
    stopping.sampling.min_tokens = static_cast<std::int64_t>(end) + 2;
    const auto later = bench.Generate(stopping);
    EXPECT_GE(later->tokens.size(), end + 2);
    EXPECT_NE(later->tokens[end], all[end]);
  }
}

// Silent tokens are like empty text: stop strings match across them.
TEST(EngineCoreTest, SilentTokensHaveNoText) {
  Bench bench;
  Request request = {.prompt = MakePrompt(10), .sampling = {.seed = 3, .max_tokens = 30}};
  const std::vector<Token> all = Expected(request).tokens;
  const std::size_t place = FirstNewToken(all, 5);
  request.sampling.silent_tokens = {all[place]};
  std::vector<Token> told = all;
  std::erase(told, all[place]);
  ASSERT_LT(told.size(), all.size());
  const auto answer = bench.Generate(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->tokens, all);
  EXPECT_EQ(answer->text, DecodeTokens(told));
  const std::string text = DecodeTokens(told);
  const std::string stop = text.substr(place - 1, 2);
  request.sampling.stop_strings = {stop};
  const auto stopped = bench.Generate(request);
  EXPECT_EQ(stopped->finish, FinishReason::kStopString);
  EXPECT_EQ(stopped->text, text.substr(0, text.find(stop)));
}

TEST(EngineCoreTest, StopStringsEndTheTextBeforeThem) {
  Bench bench;
  Request request = {.prompt = MakePrompt(10), .sampling = {.seed = 3, .max_tokens = 30}};
  const std::string text = DecodeTokens(Expected(request).tokens);
  const std::string stop = text.substr(12, 3);
  const std::size_t place = text.find(stop);
  request.sampling.stop_strings = {"never", stop};
  const auto stopped = bench.Generate(request);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->finish, FinishReason::kStopString);
  EXPECT_EQ(stopped->stop_string, 1u);
  EXPECT_EQ(stopped->text, text.substr(0, place));
  EXPECT_EQ(stopped->tokens.size(), place + 3);
  // Held back to the end, and not lost.
  request.sampling.stop_strings = {text.substr(27) + "!"};
  const auto unstopped = bench.Generate(request);
  EXPECT_EQ(unstopped->finish, FinishReason::kLength);
  EXPECT_EQ(unstopped->text, text);
}

TEST(EngineCoreTest, StopStringsAreLookedForInAStretchOnly) {
  Bench bench;
  Request request = {.prompt = MakePrompt(10), .sampling = {.seed = 3, .max_tokens = 30}};
  const std::vector<Token> tokens = Expected(request).tokens;
  const std::string text = DecodeTokens(tokens);
  const auto first = [&](Token token) {
    return static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), token) -
                                    tokens.begin());
  };
  // A letter that occurs again behind its first place, and a token from between the two.
  std::size_t again = 0;
  std::size_t between = 0;
  for (std::size_t i = 2; i < tokens.size() && again == 0; ++i) {
    const std::size_t place = text.find(text[i]);
    for (std::size_t j = place + 1; j < i; ++j) {
      if (first(tokens[j]) == j && text.find(text[i], place + 1) == i) {
        again = i;
        between = j;
      }
    }
  }
  ASSERT_GT(again, 0u);
  request.sampling.stop_strings = {text.substr(again, 1)};
  EXPECT_EQ(bench.Generate(request)->text, text.substr(0, text.find(text[again])));
  request.sampling.stop_strings_from = tokens[between];
  const auto from = bench.Generate(request);
  EXPECT_EQ(from->finish, FinishReason::kStopString);
  EXPECT_EQ(from->text, text.substr(0, again));
  request.sampling.stop_strings_until = tokens[between + 1];
  if (between + 1 < again) {
    EXPECT_EQ(bench.Generate(request)->text, text);
  }
  // Held-back text is not lost when the stretch ends.
  request.sampling = {.seed = 3,
                      .max_tokens = 30,
                      .stop_strings = {text.substr(0, between) + "!"},
                      .stop_strings_until = tokens[between]};
  const auto until = bench.Generate(request);
  EXPECT_EQ(until->text, text);
  EXPECT_EQ(until->finish, FinishReason::kLength);
}

TEST(EngineCoreTest, ReaderCancels) {
  Bench bench;
  const Request request = {.prompt = MakePrompt(200), .sampling = {.seed = 3, .max_tokens = 30}};
  const auto answer = bench.Generate(request, [](const StreamEvent& event, TokenStream& stream) {
    if (event.index == 4) stream.Cancel();
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish, FinishReason::kCancelled);
  EXPECT_EQ(answer->tokens.size(), 5u);
  EXPECT_EQ(answer->stats.generated_tokens, 5);
  EXPECT_EQ(bench.metrics.Snapshot().cancelled, 1);
  // Computed tokens can be continued.
  const Request next = {.prompt = Concatenate(Concatenate(request.prompt, answer->tokens), {8}),
                        .sampling = request.sampling};
  const auto continued = bench.Generate(next);
  EXPECT_EQ(continued->stats.cached_tokens, 128);
  EXPECT_EQ(continued->tokens, Expected(next).tokens);
}

TEST(EngineCoreTest, CancellingLosesNoText) {
  Bench bench;
  Request request = {.prompt = MakePrompt(10), .sampling = {.seed = 3, .max_tokens = 30}};
  auto all = Expected(request).tokens;
  all.resize(5);
  const std::string text = DecodeTokens(all);
  request.sampling.stop_strings = {text.substr(2) + "!"};
  std::string before;
  const auto answer = bench.Generate(request, [&](const StreamEvent& event, TokenStream& stream) {
    before += event.finish ? "" : event.text;
    if (event.index == 4) stream.Cancel();
  });
  EXPECT_EQ(answer->finish, FinishReason::kCancelled);
  EXPECT_EQ(before, text.substr(0, 2));
  EXPECT_EQ(answer->text, text);
}

TEST(EngineCoreTest, CancelledBeforeAndWhileItsPromptIsRead) {
  for (const int n_steps : {0, 1, 2}) {
    Bench bench;
    auto state = bench.core->Prepare({.prompt = MakePrompt(40), .sampling = {.seed = 3}},
                                     std::make_shared<Waker>());
    ASSERT_TRUE(state);
    TokenStream stream((*state)->stream);
    bench.core->Add(*std::move(state));
    for (int i = 0; i < n_steps; ++i) {
      EXPECT_EQ(bench.core->Step(), StepOutcome::kRan);
    }
    stream.Cancel();
    EXPECT_EQ(bench.core->Step(), StepOutcome::kIdle);
    Answer answer;
    StreamEvent event;
    while (stream.Next(event)) answer.Add(event);
    EXPECT_EQ(answer.finish, FinishReason::kCancelled);
    EXPECT_TRUE(answer.tokens.empty());
    EXPECT_EQ(bench.model.n_forwards, n_steps);
    EXPECT_TRUE(bench.core->caches().IsConsistent());
  }
}

TEST(EngineCoreTest, LengthLimits) {
  Bench bench;
  const auto until_full = bench.Generate({.prompt = MakePrompt(390), .sampling = {.seed = 1}});
  EXPECT_EQ(until_full->tokens.size(), 10u);
  EXPECT_EQ(until_full->finish, FinishReason::kLength);
  const auto full = bench.Generate({.prompt = MakePrompt(400), .sampling = {.seed = 1}});
  EXPECT_TRUE(full->tokens.empty());
  EXPECT_EQ(full->finish, FinishReason::kLength);
  // No tokens wanted: the cache is filled all the same.
  const Request warming = {.prompt = MakePrompt(150, 1), .sampling = {.seed = 1, .max_tokens = 0}};
  const auto warmed = bench.Generate(warming);
  EXPECT_TRUE(warmed->tokens.empty());
  EXPECT_EQ(warmed->finish, FinishReason::kLength);
  EXPECT_EQ(warmed->stats.generated_tokens, 0);
  EXPECT_EQ(bench.Generate(warming)->stats.cached_tokens, 128);
}

// Short contexts too: one sequence always has room for all of its own.
TEST(EngineCoreTest, AnyContextCanBeFilled) {
  for (const std::int64_t context : {1, 2, 100, 127, 128, 129, 250, 257, 400}) {
    for (const std::int64_t n_sequences : {1, 3}) {
      ModelLimits limits = kLimits;
      limits.max_context = context;
      limits.max_sequences = n_sequences;
      Bench bench({}, limits);
      const auto answer = bench.Generate(
          {.prompt = MakePrompt(static_cast<int>((context + 1) / 2)), .sampling = {.seed = 1}});
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_EQ(std::ssize(answer->tokens), context - (context + 1) / 2);
    }
  }
}

TEST(EngineCoreTest, LogprobsComeWithEveryToken) {
  Bench bench;
  const Request request = {.prompt = MakePrompt(9),
                           .sampling = {.temperature = 0, .top_logprobs = 3, .max_tokens = 6}};
  const auto answer = bench.Generate(request);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->logprobs.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const TokenLogprobs& logprobs = answer->logprobs[i];
    EXPECT_EQ(logprobs.chosen.token, answer->tokens[i]);
    ASSERT_EQ(logprobs.top.size(), 3u);
    EXPECT_EQ(logprobs.top[0].token, answer->tokens[i]);  // greedy
    EXPECT_EQ(logprobs.top[0].logprob, logprobs.chosen.logprob);
  }
}

TEST(EngineCoreTest, WrongRequestsAreRefusedByField) {
  Bench bench(EngineOptions{});
  const auto message = [&](const Request& request) {
    const auto answer = bench.Generate(request);
    return answer ? std::string("no error") : answer.error().message;
  };
  const auto of_prompt = [&](const std::vector<Token>& prompt) {
    return message({.prompt = prompt});
  };
  const auto of_sampling = [&](const SamplingParameters& sampling) {
    return message({.prompt = {1}, .sampling = sampling});
  };
  EXPECT_THAT(of_prompt({}), AllOf(HasSubstr("prompt"), HasSubstr("at least 1")));
  EXPECT_THAT(of_prompt(MakePrompt(401)), AllOf(HasSubstr("400"), HasSubstr("401")));
  EXPECT_THAT(of_prompt({1, 2, 50}),
              AllOf(HasSubstr("0 to 49"), HasSubstr("found 50 at position 2")));
  EXPECT_THAT(of_prompt({-1}), AllOf(HasSubstr("0 to 49"), HasSubstr("found -1 at position 0")));
  EXPECT_THAT(of_sampling({.top_p = 2}), HasSubstr("top_p"));
  EXPECT_THAT(of_sampling({.stop_strings = {"x"}}), HasSubstr("stop_strings"));
  EXPECT_THAT(message({.prompt = {1}, .n_choices = 0}), HasSubstr("n: expected 1 to 128, found 0"));
  EXPECT_THAT(message({.prompt = {1}, .priority = 101}), HasSubstr("priority"));
  EXPECT_EQ(bench.model.n_forwards, 0);
}

TEST(EngineCoreTest, GoesOnAfterAModelError) {
  const Request request = {.prompt = MakePrompt(40), .sampling = {.seed = 1, .max_tokens = 9}};
  for (const std::int64_t failing : {0, 1, 2, 5}) {
    Bench bench;
    bench.model.fail_at_forward = failing;
    const auto failed = bench.Generate(request);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->finish, FinishReason::kError);
    EXPECT_EQ(failed->error, "the fake model fails as told");
    EXPECT_EQ(failed->tokens.size(),
              static_cast<std::size_t>(std::max<std::int64_t>(failing, 2)) - 2);
    bench.model.fail_at_forward = -1;
    const auto answer = bench.Generate(request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->tokens, Expected(request).tokens);
  }
}

// Choices that have not begun when the prompt fails, and requests that ran in the same step.
TEST(EngineCoreTest, AModelErrorEndsAllChoices) {
  Bench bench;
  bench.model.fail_at_forward = 0;
  const Request request = {
      .prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 12}, .n_choices = 3};
  auto state = bench.core->Prepare(request, std::make_shared<Waker>());
  ASSERT_TRUE(state);
  TokenStream stream((*state)->stream);
  bench.core->Add(*std::move(state));
  EXPECT_EQ(bench.core->Step(), StepOutcome::kRan);
  EXPECT_EQ(bench.core->n_requests(), 0);
  EXPECT_TRUE(bench.core->caches().IsConsistent());
  StreamEvent event;
  std::uint32_t n_ended = 0;
  while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
    EXPECT_EQ(event.choice, n_ended++);
    EXPECT_EQ(event.finish, FinishReason::kError);
    ASSERT_TRUE(event.error);
    EXPECT_EQ(event.error->code, ErrorCode::kIo);
  }
  EXPECT_EQ(n_ended, 3u);
  EXPECT_EQ(bench.metrics.Snapshot().failed, 1);
}

TEST(EngineCoreTest, NanLogitsEndTheRequestWithAnError) {
  Bench bench;
  bench.model.nan_at_forward = 5;  // 3 chunks and 2 tokens
  const auto answer =
      bench.Generate({.prompt = MakePrompt(40), .sampling = {.seed = 1, .max_tokens = 9}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish, FinishReason::kError);
  EXPECT_EQ(answer->tokens.size(), 2u);
  EXPECT_THAT(answer->error, AllOf(HasSubstr("position 42"), HasSubstr("token 1")));
}

// A step is traced from the beginning of its forward pass on.
TEST(EngineCore, TracesStepsAsLongAsTheyTake) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "core_trace.json";
  {
    Bench bench({.token_bytes = Letter, .trace = path});
    bench.model.forward_takes = std::chrono::milliseconds(1);
    ASSERT_TRUE(bench.Generate({.prompt = MakePrompt(3), .sampling = {.max_tokens = 4}}));
  }
  std::ifstream file(path);
  int n_steps = 0;
  for (const nlohmann::json& event : nlohmann::json::parse(file)) {
    if (event["name"] != "step") continue;
    ++n_steps;
    EXPECT_GE(event["dur"], 1000);
  }
  EXPECT_GE(n_steps, 4);
}

}  // namespace
}  // namespace fathom::engine
