// Drafts of a fake model: as deep as the drafter allows, and found right at a given rate.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/simulated_acceptance.h"
#include "tests/engine/one_request.h"

namespace fathom::testing {
namespace {

ModelLimits LimitsOf(std::int64_t max_draft_depth) {
  ModelLimits limits = kLimits;
  limits.max_draft_depth = max_draft_depth;
  return limits;
}

// Answers one request with drafts of `depth`.
Answer AnswerOf(LanguageModel& model, std::int64_t depth, const Request& request,
                EngineMetrics& metrics) {
  auto core = EngineCore::Create(model, {.draft = {.enabled = true, .depth = depth}}, metrics);
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
  FakeModel model({.limits = LimitsOf(kDepth), .draft_accuracy = 0.9});
  EngineMetrics metrics(kDepth);
  EXPECT_EQ(AnswerOf(model, kDepth, request, metrics).tokens, Expected(request).tokens);
  const MetricsSnapshot now = metrics.Snapshot();
  ASSERT_EQ(now.drafted.size(), static_cast<std::size_t>(kDepth));
  EXPECT_GT(now.drafted.back(), 0);
  const auto deeper =
      EngineCore::Create(model, {.draft = {.enabled = true, .depth = kDepth + 1}}, metrics);
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().message, "draft depth: expected 0 to 7, found 8");
}

TEST(SimulatedAcceptance, AcceptsAtTheRate) {
  const Request request = {.prompt = MakePrompt(20),
                           .sampling = {.seed = 1, .max_tokens = 300, .ignore_eos = true}};
  for (const double temperature : {0.0, 1.0}) {
    for (const auto& [rate, least, most] :
         {std::tuple(0.0, 0.0, 0.0), {0.3, 0.15, 0.45}, {0.8, 0.65, 0.95}, {1.0, 1.0, 1.0}}) {
      Request asked = request;
      asked.sampling.temperature = temperature;
      SimulatedAcceptance model(std::make_unique<FakeModel>(LimitsOf(4)), rate);
      EngineMetrics metrics;
      const Answer answer = AnswerOf(model, 1, asked, metrics);
      EXPECT_EQ(answer.tokens.size(), 300u);
      const auto drafted = static_cast<double>(answer.stats.drafted_tokens);
      EXPECT_GE(drafted, 140);
      const double found = static_cast<double>(answer.stats.accepted_tokens) / drafted;
      EXPECT_GE(found, least) << rate << " at " << temperature;
      EXPECT_LE(found, most) << rate << " at " << temperature;
    }
  }
}

TEST(SimulatedAcceptance, WithoutDraftsTheAnswerIsTheModels) {
  const Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 1, .max_tokens = 20}};
  SimulatedAcceptance model(std::make_unique<FakeModel>(kLimits), 0.5);
  EngineMetrics metrics;
  auto core = *EngineCore::Create(model, {}, metrics);
  auto state = core->Prepare(request, std::make_shared<Waker>());
  TokenStream stream((*state)->stream);
  core->Add(*std::move(state));
  Answer answer;
  StreamEvent event;
  while (core->Step() != StepOutcome::kIdle) {
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      answer.Add(event);
    }
  }
  EXPECT_EQ(answer.tokens, Expected(request).tokens);
}

}  // namespace
}  // namespace fathom::testing
