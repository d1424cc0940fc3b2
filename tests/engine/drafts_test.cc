// Drafts of a fake model: as deep as the drafter allows, and found right at a given rate.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "tests/engine/one_request.h"

namespace fathom::testing {
namespace {

ModelLimits MakeLimits(std::int64_t max_draft_depth) {
  ModelLimits limits = kLimits;
  limits.max_draft_depth = max_draft_depth;
  return limits;
}

// Answers one request.
Answer GenerateAnswer(LanguageModel& model, const DraftOptions& draft, const Request& request,
                      EngineMetrics& metrics) {
  auto core = EngineCore::Create(model, {.draft = draft}, metrics);
  EXPECT_TRUE(core) << core.error().message;
  auto state = (*core)->Prepare(request, std::make_shared<Waker>());
  TokenStream stream((*state)->stream);
  (*core)->Add(*std::move(state));
  Answer answer;
  StreamEvent event;
  while ((*core)->Step() != StepOutcome::kIdle) {
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      answer.Add(event);
    }
  }
  answer.stats = stream.stats();
  return answer;
}

TEST(Drafts, AreAsDeepAsTheDrafterAllows) {
  constexpr std::int64_t kDepth = 7;
  const Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 60}};
  FakeModel model({.limits = MakeLimits(kDepth), .draft_accuracy = 0.9});
  EngineMetrics metrics(kDepth);
  EXPECT_EQ(GenerateAnswer(model, {.enabled = true, .depth = kDepth}, request, metrics).tokens,
            Expected(request).tokens);
  const MetricsSnapshot now = metrics.Snapshot();
  ASSERT_EQ(now.drafted.size(), static_cast<std::size_t>(kDepth));
  EXPECT_GT(now.drafted.back(), 0);
  const auto deeper =
      EngineCore::Create(model, {.draft = {.enabled = true, .depth = kDepth + 1}}, metrics);
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().message, "draft depth: expected 0 to 7, found 8");
}

// One allowed token makes a text of repetitions, whatever the model says: all that is looked up is
// right. No drafter is needed.
TEST(Lookups, AreRightWhereTheTextRepeats) {
  Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 101}};
  request.sampling.logit_bias = {{7, 100.0f}};
  for (const std::int64_t depth : {1, 4, 7}) {
    FakeModel model(kLimits);
    EngineMetrics metrics;
    const DraftOptions draft = {.lookups = true, .lookup_depth = depth};
    const Answer answer = GenerateAnswer(model, draft, request, metrics);
    EXPECT_EQ(answer.tokens, std::vector<Token>(101, 7)) << depth;
    const MetricsSnapshot now = metrics.Snapshot();
    // The first four tokens have no match; the last token is never drafted.
    const std::int64_t n_steps = 4 + (97 + depth) / (depth + 1);
    EXPECT_EQ(now.accepted_lookups, now.looked_up) << depth;
    EXPECT_GE(now.looked_up[static_cast<std::size_t>(depth - 1)], 97 / (depth + 1) - 1) << depth;
    EXPECT_EQ(now.drafted[0], 0) << depth;
    EXPECT_NEAR(static_cast<double>(now.steps), static_cast<double>(n_steps + 2), 1) << depth;
    EXPECT_EQ(answer.stats.accepted_tokens, answer.stats.drafted_tokens) << depth;
  }
}

TEST(Lookups, AreNoDeeperThanAStepVerifies) {
  FakeModel model(kLimits);
  EngineMetrics metrics;
  const auto deeper =
      EngineCore::Create(model, {.draft = {.lookups = true, .lookup_depth = 8}}, metrics);
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().message, "lookup depth: expected 0 to 7, found 8");
}

// Where a sequence finds nothing in its text, the drafter drafts; each is counted apart.
TEST(Lookups, LeaveOtherTextsToTheDrafter) {
  Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 80}};
  FakeModel model({.limits = MakeLimits(4), .draft_accuracy = 0.9});
  const DraftOptions draft = {.enabled = true, .depth = 3, .lookups = true, .lookup_depth = 4};
  {
    EngineMetrics metrics;
    EXPECT_EQ(GenerateAnswer(model, draft, request, metrics).tokens, Expected(request).tokens);
    EXPECT_GT(metrics.Snapshot().drafted[2], 10);
  }
  request.sampling.logit_bias = {{7, 100.0f}};
  EngineMetrics metrics;
  EXPECT_EQ(GenerateAnswer(model, draft, request, metrics).tokens, std::vector<Token>(80, 7));
  EXPECT_LE(metrics.Snapshot().drafted[0], 4);
  EXPECT_GE(metrics.Snapshot().accepted_lookups[3], 14);
}

TEST(SimulatedAcceptance, AcceptsAtTheRate) {
  const Request request = {.prompt = MakePrompt(20),
                           .sampling = {.seed = 1, .max_tokens = 300, .ignore_eos = true}};
  for (const double temperature : {0.0, 1.0}) {
    for (const auto& [rate, least, most] :
         {std::tuple(0.0, 0.0, 0.0), {0.3, 0.15, 0.45}, {0.8, 0.65, 0.95}, {1.0, 1.0, 1.0}}) {
      Request asked = request;
      asked.sampling.temperature = temperature;
      FakeModel model(MakeLimits(4));
      EngineMetrics metrics;
      const DraftOptions draft = {.enabled = true, .depth = 1, .acceptance = rate};
      const Answer answer = GenerateAnswer(model, draft, asked, metrics);
      EXPECT_EQ(answer.tokens.size(), 300u);
      const auto drafted = static_cast<double>(answer.stats.drafted_tokens);
      EXPECT_GE(drafted, 140);
      const double found = static_cast<double>(answer.stats.accepted_tokens) / drafted;
      EXPECT_GE(found, least) << rate << " at " << temperature;
      EXPECT_LE(found, most) << rate << " at " << temperature;
    }
  }
}

// Whatever the depth: of the drafts that were verified, those before them being right.
TEST(SimulatedAcceptance, KeepsToTheRateInAShortAnswer) {
  for (const double rate : {0.2, 0.5, 0.8}) {
    for (std::int64_t depth = 1; depth <= 4; ++depth) {
      FakeModel model(MakeLimits(4));
      EngineMetrics metrics;
      GenerateAnswer(model, {.enabled = true, .depth = depth, .acceptance = rate},
                     {.prompt = MakePrompt(20),
                      .sampling = {.seed = 1, .max_tokens = 256, .ignore_eos = true}},
                     metrics);
      const MetricsSnapshot found = metrics.Snapshot();
      std::int64_t n_drafted = found.drafted[0];
      for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i) {
        const auto n = static_cast<double>(found.drafted[i]);
        // Blocks of 20, of which the last is cut.
        EXPECT_NEAR(static_cast<double>(found.accepted[i]), rate * n, 5) << rate << " at " << i;
        EXPECT_LE(static_cast<std::int64_t>(found.drafted[i]), n_drafted) << rate << " at " << i;
        n_drafted = static_cast<std::int64_t>(found.accepted[i]);
      }
    }
  }
}

TEST(SimulatedAcceptance, WithoutDraftsTheAnswerIsTheModels) {
  const Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 20}};
  FakeModel model(kLimits);
  EngineMetrics metrics;
  EXPECT_EQ(GenerateAnswer(model, {.acceptance = 0.5}, request, metrics).tokens,
            Expected(request).tokens);
}

}  // namespace
}  // namespace fathom::testing
