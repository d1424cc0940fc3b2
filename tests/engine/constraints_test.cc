// Constraints in the engine: masks before everything else, the end of an answer, drafts, forks,
// preemption, late masks, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/constraint_path.h"
#include "engine/engine_core.h"
#include "engine/mask_pool.h"
#include "engine/sampler.h"
#include "tests/engine/fake_constraint.h"
#include "tests/engine/one_request.h"
#include "tests/engine/schedule_checks.h"

namespace fathom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kTokens = 130;  // more than two words of a mask
constexpr Token kEos = 1;

// The sampler with a constraint, behind `output`.
struct Sampling {
  Sampling(std::vector<std::vector<Token>> allowed, SamplingParameters parameters,
           const std::vector<Token>& output = {})
      : state(kTokens), sampler(kTokens) {
    parameters.constraint = std::make_shared<ListedConstraint>(std::move(allowed), kTokens, kEos);
    path.emplace(parameters.constraint, "", masks);
    const Token prompt[] = {5};
    const Token eos[] = {kEos};
    state.Begin(parameters, 3, prompt, eos);
    state.Continue({}, &*path);
    for (const Token token : output) {
      state.Accept(token);
    }
    position = 1 + std::ssize(output);
    for (std::int64_t i = 0; i < kTokens; ++i) {
      logits.push_back(static_cast<float>(i % 7) - 3.0f);
    }
  }

  Result<Token> Next() { return sampler.Sample(logits, state, position, logprobs); }

  MaskPool masks{nullptr};
  std::optional<ConstraintPath> path;
  SamplerState state;
  Sampler sampler;
  std::int64_t position = 0;
  std::vector<float> logits;
  TokenLogprobs logprobs;
};

TEST(Constraints, MasksComeBeforeEverything) {
  std::vector<SamplingParameters> all(8);
  all[0].temperature = 0;
  all[1].temperature = 1e-4;
  all[2].temperature = 2;
  all[3].top_p = 0;
  all[4].top_k = 1;
  all[5].min_p = 1;
  all[6].logit_bias = {{6, 100}, {64, -100}, {129, -100}};
  all[7].frequency_penalty = 2;
  all[7].repetition_penalty = 100;
  for (const SamplingParameters& parameters : all) {
    // Token 6 has the largest logit, 64 and 129 are allowed.
    Sampling sampling({{64, 129}}, parameters, {64, 129, 129});
    const Result<Token> token = sampling.Next();
    ASSERT_TRUE(token) << token.error().message;
    EXPECT_TRUE(*token == 64 || *token == 129) << *token;
  }
  EXPECT_EQ(*Sampling({{64, 129}}, all[0]).Next(), 129);
}

TEST(Constraints, EqualAnExplicitExclusion) {
  std::vector<Token> allowed;
  for (Token token = 2; token < kTokens; token += 3) allowed.push_back(token);
  for (const double temperature : {0.0, 0.7, 2.0}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const SamplingParameters parameters = {
          .temperature = temperature, .top_p = 0.8, .seed = seed};
      Sampling constrained({allowed}, parameters);
      SamplerState free(kTokens);
      const Token prompt[] = {5};
      free.Begin(parameters, 3, prompt, {});
      std::vector<float> logits = constrained.logits;
      for (Token token = 0; token < kTokens; ++token) {
        if (token % 3 != 2) logits[static_cast<std::size_t>(token)] = -1e30f;
      }
      TokenLogprobs logprobs;
      EXPECT_EQ(*constrained.Next(), *constrained.sampler.Sample(logits, free, 1, logprobs));
    }
  }
}

TEST(Constraints, LogprobsAreThoseOfTheRawLogits) {
  Sampling sampling({{64}}, {.top_logprobs = 2});
  EXPECT_EQ(*sampling.Next(), 64);
  EXPECT_EQ(sampling.logprobs.chosen.token, 64);
  EXPECT_EQ(sampling.logprobs.top.at(0).token, 6);  // illegal, and more probable
  EXPECT_GT(sampling.logprobs.rank, 1);
}

TEST(Constraints, EndOnlyWhereTheGrammarDoes) {
  // Greedy would choose EOS, which has the largest logit.
  const auto next = [](std::vector<Token> allowed, SamplingParameters parameters) {
    parameters.temperature = 0;
    Sampling sampling({std::move(allowed)}, parameters);
    sampling.logits[kEos] = 9;
    const Result<Token> token = sampling.Next();
    if (token) {
      EXPECT_EQ(sampling.state.Ends(*token), *token == kEos || *token == 7);
    }
    return token;
  };
  EXPECT_EQ(*next({4, 8}, {}), 4);
  EXPECT_EQ(*next({kEos, 8}, {}), kEos);
  // Both yield where only the end is left.
  EXPECT_EQ(*next({kEos, 8}, {.min_tokens = 3}), 8);
  EXPECT_EQ(*next({kEos}, {.min_tokens = 3}), kEos);
  EXPECT_EQ(*next({kEos, 8}, {.ignore_eos = true}), 8);
  EXPECT_EQ(*next({kEos}, {.ignore_eos = true}), kEos);
  // A stop token would end the answer too early.
  EXPECT_EQ(*next({7, 8}, {.logit_bias = {{7, 50}}, .stop_tokens = {7}}), 8);
  EXPECT_EQ(*next({kEos, 7, 8}, {.logit_bias = {{7, 50}}, .stop_tokens = {7}}), 7);
  const Result<Token> nothing = next({7}, {.stop_tokens = {7}});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, StartsWith("constraint_unsatisfiable: "));
  EXPECT_EQ(nothing.error().code, ErrorCode::kInvalidArgument);
}

TEST(Constraints, TheBudgetOfTheReasoningNeedsItsEnd) {
  SamplingParameters parameters;
  parameters.reasoning_budget = {.n_tokens = 1, .end = 9};
  Sampling allowed({{4}, {8, 9}, {10}}, parameters, {4});
  EXPECT_EQ(*allowed.Next(), 9);
  allowed.state.Accept(9);
  ++allowed.position;
  EXPECT_EQ(*allowed.Next(), 10);
  const Result<Token> excluded = Sampling({{4}, {8}}, parameters, {4}).Next();
  ASSERT_FALSE(excluded);
  EXPECT_THAT(excluded.error().message, StartsWith("constraint_unsatisfiable: "));
}

TEST(Constraints, NotANumberIsAnErrorBeforeAnyMask) {
  Sampling sampling({{64}}, {});
  sampling.logits[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(sampling.Next().error().message, HasSubstr("expected finite numbers"));
}

// --- In the engine ---

// A core and its requests, whose events are read as they come.
class Running {
 public:
  explicit Running(const FakeModelOptions& options, EngineOptions engine = {})
      : model(options), metrics(8) {
    engine.eos_tokens = {kEos};
    engine.token_bytes = Letter;
    engine.target_step_seconds = 0;
    auto made = EngineCore::Create(model, engine, metrics);
    EXPECT_TRUE(made) << made.error().message;
    core = *std::move(made);
  }

  void Submit(const Request& request) {
    auto state = core->Prepare(request, std::make_shared<Waker>());
    ASSERT_TRUE(state) << state.error().message;
    streams.emplace_back((*state)->stream);
    answers.emplace_back(static_cast<std::size_t>(request.n_choices));
    core->Add(*std::move(state));
  }
  StepOutcome Step() {
    const StepOutcome outcome = core->Step();
    StreamEvent event;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      while (streams[i].NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
        Answer& answer = answers[i].at(event.choice);
        event.choice = 0;
        answer.Add(event);
      }
    }
    return outcome;
  }
  void Finish() {
    StepOutcome outcome = StepOutcome::kRan;
    while (outcome != StepOutcome::kIdle) {
      outcome = Step();
      ASSERT_NE(outcome, StepOutcome::kStalled);
      ASSERT_TRUE(core->caches().IsConsistent());
    }
  }

  FakeModel model;
  EngineMetrics metrics;
  std::unique_ptr<EngineCore> core;
  std::vector<TokenStream> streams;
  std::vector<std::vector<Answer>> answers;
};

std::shared_ptr<FakeConstraint> Fake(FakeConstraintOptions options) {
  options.vocab_size = kVocabulary;
  options.eos = kEos;
  return std::make_shared<FakeConstraint>(std::move(options));
}

ModelLimits DeepLimits(std::int64_t max_draft_depth) {
  ModelLimits limits = kLimits;
  limits.max_sequences = 4;
  limits.max_batch_tokens = 64;
  limits.max_logit_rows = 40;
  limits.max_draft_depth = max_draft_depth;
  return limits;
}

// Drafters that always, often and never say what the model says. None of their drafts reaches the
// constraint unless it allows the draft.
TEST(Constraints, AnswersDoNotDependOnDrafts) {
  constexpr std::int64_t kDeepest = 7;
  for (const double accuracy : {0.0, 0.6, 1.0}) {
    std::int64_t n_accepted = 0;
    for (std::int64_t depth = 0; depth <= kDeepest; ++depth) {
      Running running({.limits = DeepLimits(kDeepest), .draft_accuracy = accuracy},
                      {.draft = {.enabled = depth > 0, .depth = depth}});
      std::vector<Request> requests;
      std::vector<std::shared_ptr<FakeConstraint>> constraints;
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        constraints.push_back(Fake({.seed = seed, .longest = 70}));
        requests.push_back({.prompt = MakePrompt(9, static_cast<Token>(seed)),
                            .sampling = {.temperature = static_cast<double>(seed % 3) * 0.7,
                                         .seed = seed,
                                         .max_tokens = 80,
                                         .min_tokens = 60,
                                         .constraint = constraints.back()}});
        running.Submit(requests.back());
      }
      running.Finish();
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const Answer& answer = running.answers[i][0];
        EXPECT_EQ(answer.tokens, Expected(requests[i], {kEos}).tokens) << depth;
        EXPECT_TRUE(constraints[i]->Accepts(answer.tokens));
        EXPECT_EQ(constraints[i]->n_illegal(), 0);
        EXPECT_GE(answer.tokens.size(), 60u);
        EXPECT_EQ(answer.tokens.back(), kEos);
      }
      for (const std::int64_t n : running.metrics.Snapshot().accepted) n_accepted += n;
    }
    EXPECT_GT(n_accepted, accuracy > 0 ? 300 : 0) << accuracy;
  }
}

// With the masks that verify them, the drafts of a drafter that is always right are accepted.
TEST(Constraints, DraftsHaveTheMasksThatVerifyThem) {
  Running running({.limits = DeepLimits(3), .draft_accuracy = 1.0},
                  {.draft = {.enabled = true, .depth = 3}});
  running.Submit(
      {.prompt = MakePrompt(9),
       .sampling = {
           .seed = 4, .max_tokens = 200, .min_tokens = 200, .constraint = Fake({.seed = 4})}});
  running.Finish();
  const MetricsSnapshot now = running.metrics.Snapshot();
  EXPECT_EQ(running.answers[0][0].tokens.size(), 200u);
  // A late mask may cut a window.
  EXPECT_GT(now.accepted[0], now.drafted[0] * 9 / 10);
  // Masks are reused: hardly more than one for each token and each window.
  EXPECT_LE(now.masks, 200 + 60 + 10);
}

TEST(Constraints, ChoicesShareAConstraint) {
  Running running({.limits = DeepLimits(0)});
  const auto constraint = Fake({.seed = 3, .longest = 40});
  Request request = {.prompt = MakePrompt(20),
                     .sampling = {.seed = 8, .max_tokens = 50, .constraint = constraint},
                     .n_choices = 6};  // more than there are slots
  running.Submit(request);
  running.Finish();
  for (std::uint32_t j = 0; j < 6; ++j) {
    request.sampling.choice = j;
    EXPECT_EQ(running.answers[0][j].tokens, Expected(request, {kEos}).tokens) << j;
    EXPECT_EQ(running.answers[0][j].finish, FinishReason::kStop);
  }
  EXPECT_EQ(constraint->n_illegal(), 0);
}

TEST(Constraints, PreemptedSequencesGoOn) {
  FakeModelOptions options = {.limits = DeepLimits(0)};
  options.limits.max_context = kContext;
  options.memory_bytes = SmallMemory(FakeModel(options).cache());
  Running running(options);
  std::vector<Request> requests;
  for (Token i = 0; i < 4; ++i) {
    requests.push_back({.prompt = MakePrompt(120, i),
                        .sampling = {.seed = 8,
                                     .max_tokens = 200,
                                     .min_tokens = 190,
                                     .constraint = Fake({.seed = static_cast<std::uint64_t>(i)})}});
    running.Submit(requests.back());
  }
  running.Finish();
  EXPECT_GT(running.metrics.Snapshot().preemptions, 0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(running.answers[i][0].tokens, Expected(requests[i], {kEos}).tokens) << i;
  }
}

TEST(Constraints, ErrorsEndOnlyTheirRequest) {
  Running running({.limits = DeepLimits(0)});
  const auto request = [](std::uint64_t seed, std::int64_t fails_at) {
    return Request{.prompt = MakePrompt(9),
                   .sampling = {.seed = 1,
                                .max_tokens = 60,
                                .min_tokens = 60,
                                .constraint = Fake({.seed = seed, .fails_at = fails_at})}};
  };
  running.Submit(request(1, 1000));
  running.Submit(request(2, 10));
  running.Submit({.prompt = MakePrompt(9), .sampling = {.seed = 1, .max_tokens = 30}});
  running.Finish();
  EXPECT_EQ(running.answers[0][0].finish, FinishReason::kLength);
  EXPECT_EQ(running.answers[1][0].finish, FinishReason::kError);
  EXPECT_THAT(running.answers[1][0].error, StartsWith("constraint_too_complex: grammar"));
  EXPECT_GE(running.answers[1][0].tokens.size(), 10u);
  EXPECT_EQ(running.answers[2][0].error, "");
}

// --- Late masks ---

// Holds the masks of a constraint until it is opened.
class Gate {
 public:
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  std::function<void(std::int64_t, std::uint64_t)> From(std::int64_t n_tokens) {
    return [this, n_tokens](std::int64_t n, std::uint64_t /*hash*/) {
      std::unique_lock lock(mutex_);
      if (n == n_tokens) changed_.wait(lock, [this] { return open_; });
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(Constraints, ALateMaskDelaysOnlyItsSequence) {
  for (const std::int64_t depth : {0, 3}) {
    for (const std::int64_t late : {0, 1, 5}) {
      Gate gate;
      Running running({.limits = DeepLimits(3)}, {.draft = {.enabled = depth > 0, .depth = depth}});
      const Request held = {.prompt = MakePrompt(9),
                            .sampling = {.seed = 1,
                                         .max_tokens = 30,
                                         .min_tokens = 20,
                                         .constraint = Fake({.on_mask = gate.From(late)})}};
      const Request free = {.prompt = MakePrompt(12),
                            .sampling = {.seed = 1, .max_tokens = 40, .ignore_eos = true}};
      running.Submit(held);
      running.Submit(free);
      while (!running.answers[1][0].finish) {
        ASSERT_EQ(running.Step(), StepOutcome::kRan);
      }
      // On a busy machine an earlier mask may be late too.
      EXPECT_LE(running.answers[0][0].tokens.size(), static_cast<std::size_t>(late));
      EXPECT_GE(running.metrics.Snapshot().late_masks, 1);
      EXPECT_EQ(running.answers[1][0].tokens, Expected(free, {kEos}).tokens);
      gate.Open();
      running.Finish();
      EXPECT_EQ(running.answers[0][0].tokens, Expected(held, {kEos}).tokens);
    }
  }
}

// More sequences with slow masks than the pool has threads, which are all held.
TEST(Constraints, SlowMasksDelayNoQuickOnes) {
  constexpr int kSequences = 12;
  constexpr std::clock_t kSlow = CLOCKS_PER_SEC / 10;  // of all threads together
  Gate gate;
  MaskPool pool(nullptr);
  ASSERT_TRUE(pool.Start());
  const auto hold = gate.From(1);
  std::vector<std::unique_ptr<ConstraintPath>> slow;
  for (int i = 0; i < kSequences; ++i) {
    const auto on_mask = [&hold](std::int64_t n, std::uint64_t hash) {
      const std::clock_t begin = std::clock();
      while (n == 0 && std::clock() - begin < kSlow) {
      }
      hold(n, hash);
    };
    slow.push_back(std::make_unique<ConstraintPath>(
        Fake({.seed = static_cast<std::uint64_t>(i), .on_mask = on_mask}), "", pool));
  }
  for (const auto& path : slow) {
    Token token = kEos + 1;
    while (!path->Find().mask.Allows(token)) ++token;
    path->Accept(token);
  }
  ConstraintPath quick(Fake({.seed = 99}), "", pool);
  EXPECT_TRUE(quick.WaitUntil(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  gate.Open();
}

// Where no processor is left to the pool's threads, whoever asks computes what should be quick, but
// nothing while they compute, and nothing behind a slow mask.
TEST(Constraints, AnAskerComputesQuickMasks) {
  // Longer than a quick mask, and too short for two of them to move the average far.
  constexpr std::clock_t kSlow = CLOCKS_PER_SEC / 2000;
  Gate gate;  // outlives the threads of the pool
  std::thread::id computed_by;
  std::atomic<bool> is_slow = false;
  const auto on_mask = [&](std::int64_t, std::uint64_t) {
    computed_by = std::this_thread::get_id();
    const std::clock_t begin = std::clock();
    while (is_slow && std::clock() - begin < kSlow) {
    }
  };
  MaskPool pool(nullptr, QuickMasks::kAskers);
  ASSERT_TRUE(pool.Start());
  ConstraintPath path(Fake({.on_mask = on_mask}), "", pool);
  const auto next = [&] {
    Token token = 0;
    while (token == kEos || !path.Find().mask.Allows(token)) ++token;
    path.Accept(token);
    EXPECT_FALSE(path.Find().error);
    return computed_by == std::this_thread::get_id();
  };
  path.Find();
  EXPECT_NE(computed_by, std::this_thread::get_id()) << "the first mask may take long";
  int n_quick = 0;
  for (int i = 0; i < 50; ++i) n_quick += next() ? 1 : 0;
  EXPECT_GT(n_quick, 10);  // a thread may still be at the end of the first one

  const ConstraintPath held(Fake({.seed = 1, .on_mask = gate.From(0)}), "", pool);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(next()) << "while a thread computes";
  }
  gate.Open();
  held.Find();
  n_quick = 0;
  for (int i = 0; i < 50; ++i) n_quick += next() ? 1 : 0;
  EXPECT_GT(n_quick, 10) << "when no thread computes any more";

  is_slow = true;
  next();
  EXPECT_FALSE(next()) << "behind a slow mask";
}

TEST(Constraints, ALateMaskDelaysNoNewRequest) {
  Gate gate;
  Running running({.limits = DeepLimits(0)});
  const Request held = {.prompt = MakePrompt(9),
                        .sampling = {.seed = 1,
                                     .max_tokens = 30,
                                     .min_tokens = 20,
                                     .constraint = Fake({.on_mask = gate.From(3)})}};
  const Request free = {.prompt = MakePrompt(12),
                        .sampling = {.seed = 1, .max_tokens = 20, .ignore_eos = true}};
  running.Submit(held);
  // Only the sequence that sits out is there: steps wait for its mask, but not without end.
  while (running.metrics.Snapshot().late_masks == 0) {
    ASSERT_EQ(running.Step(), StepOutcome::kRan);
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(running.Step(), StepOutcome::kRan);
  }
  running.Submit(free);
  while (!running.answers[1][0].finish) {
    ASSERT_EQ(running.Step(), StepOutcome::kRan);
  }
  EXPECT_FALSE(running.answers[0][0].finish);
  EXPECT_EQ(running.answers[1][0].tokens, Expected(free, {kEos}).tokens);
  gate.Open();
  running.Finish();
  EXPECT_EQ(running.answers[0][0].tokens, Expected(held, {kEos}).tokens);
}

// With several steps in flight, the last position of a prompt waits for its mask.
TEST(Constraints, ALateFirstMaskDelaysNoStepsInFlight) {
  for (const int n_prompt : {1, 9}) {
    Gate gate;
    ModelLimits limits = DeepLimits(0);
    limits.most_in_flight = 2;
    Running running({.limits = limits});
    const Request held = {.prompt = MakePrompt(n_prompt),
                          .sampling = {.seed = 1,
                                       .max_tokens = 30,
                                       .min_tokens = 20,
                                       .constraint = Fake({.on_mask = gate.From(0)})}};
    const Request free = {.prompt = MakePrompt(12),
                          .sampling = {.seed = 1, .max_tokens = 20, .ignore_eos = true}};
    running.Submit(held);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(running.Step(), StepOutcome::kRan);
    }
    running.Submit(free);
    while (!running.answers[1][0].finish) {
      ASSERT_EQ(running.Step(), StepOutcome::kRan);
    }
    EXPECT_EQ(running.answers[0][0].tokens.size(), 0u);
    EXPECT_EQ(running.answers[1][0].tokens, Expected(free, {kEos}).tokens);
    gate.Open();
    running.Finish();
    EXPECT_EQ(running.answers[0][0].tokens, Expected(held, {kEos}).tokens);
  }
}

TEST(Constraints, ASequenceThatSitsOutCanBeCancelled) {
  Gate gate;
  Running running({.limits = DeepLimits(0)});
  running.Submit({.prompt = MakePrompt(9),
                  .sampling = {.seed = 1, .constraint = Fake({.on_mask = gate.From(2)})}});
  running.Submit(
      {.prompt = MakePrompt(12), .sampling = {.seed = 1, .max_tokens = 300, .ignore_eos = true}});
  while (running.metrics.Snapshot().late_masks == 0) {
    ASSERT_EQ(running.Step(), StepOutcome::kRan);
  }
  running.streams[0].Cancel();
  ASSERT_EQ(running.Step(), StepOutcome::kRan);
  EXPECT_EQ(running.answers[0][0].finish, FinishReason::kCancelled);
  gate.Open();
  running.Finish();
  EXPECT_EQ(running.answers[1][0].tokens.size(), 300u);
}

}  // namespace
}  // namespace fathom::testing
