// Several steps at once, as with the stages of a pipeline: they take turns, and events of one
// request affect no other. schedule_test.cc runs many of them at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine_core.h"
#include "model/draft/drafters.h"
#include "tests/engine/one_request.h"

namespace fathom::engine {
namespace {

using ::fathom::testing::Answer;
using ::fathom::testing::Expected;
using ::fathom::testing::FakeModel;
using ::fathom::testing::kLimits;
using ::fathom::testing::MakePrompt;
using ::testing::Each;
using ::testing::ElementsAre;

ModelLimits MakeLimits(int most_in_flight) {
  ModelLimits limits = kLimits;
  limits.max_sequences = 6;
  limits.max_batch_tokens = 64;
  limits.most_in_flight = most_in_flight;
  return limits;
}

// Some requests of one length, answered together.
class Together {
 public:
  explicit Together(const ModelLimits& limits, int n_requests = 5,
                    const EngineOptions& options = {}, std::int64_t n_tokens = 9)
      : model(limits), core(*EngineCore::Create(model, options, metrics)) {
    for (int i = 0; i < n_requests; ++i) {
      requests.push_back({.prompt = MakePrompt(5, i),
                          .sampling = {.seed = 1, .max_tokens = n_tokens, .min_tokens = n_tokens}});
      auto state = core->Prepare(requests.back(), std::make_shared<Waker>());
      streams.emplace_back((*state)->stream);
      core->Add(*std::move(state));
    }
    answers.resize(requests.size());
  }

  // Steps until nothing is left; all that the streams said is in `answers` then.
  void Finish() {
    StepOutcome outcome = StepOutcome::kRan;
    while (outcome != StepOutcome::kIdle) {
      outcome = core->Step();
      ASSERT_NE(outcome, StepOutcome::kStalled);
      Read();
    }
    EXPECT_EQ(core->n_requests(), 0);
    EXPECT_TRUE(core->caches().IsConsistent());
  }
  void Read() {
    StreamEvent event;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      while (streams[i].NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
        answers[i].Add(event);
      }
    }
  }

  FakeModel model;
  EngineMetrics metrics;
  std::unique_ptr<EngineCore> core;
  std::vector<Request> requests;
  std::vector<TokenStream> streams;
  std::vector<Answer> answers;
};

TEST(StepsInFlight, ThoseThatDecodeTakeTurns) {
  for (const int most : {1, 2, 3, 4}) {
    Together together(MakeLimits(most));
    together.Finish();
    for (std::size_t i = 0; i < together.answers.size(); ++i) {
      EXPECT_EQ(together.answers[i].tokens, Expected(together.requests[i]).tokens) << most << i;
    }
    EXPECT_EQ(together.model.most_at_once, most);
    // The prompts together, and then 8 tokens of 5 sequences, at most ceil(5 / most) in a step.
    const std::int64_t share = (5 + most - 1) / most;
    EXPECT_EQ(together.model.most_rows, most == 1 ? 5 : std::max<std::int64_t>(share, 4)) << most;
    EXPECT_GE(together.model.n_forwards, 1 + 8 * ((5 + share - 1) / share)) << most;
  }
}

TEST(StepsInFlight, OneSequenceIsAsFastAsAlone) {
  std::int64_t n_alone = 0;
  for (const int most : {1, 4}) {
    Together together(MakeLimits(most), 1);
    together.Finish();
    EXPECT_EQ(together.answers[0].tokens, Expected(together.requests[0]).tokens);
    n_alone = most == 1 ? together.model.n_forwards : n_alone;
    EXPECT_EQ(together.model.n_forwards, n_alone);
  }
}

// A number of drafts was asked for, or one sequence decodes: one step at a time. Else as many as
// without drafts, whose keys are kept for the drafts of later steps.
TEST(StepsInFlight, StepsThatDraftRunAlone) {
  for (const std::int64_t depth : {0, 2}) {
    for (const int n_requests : {1, 4}) {
      ModelLimits limits = MakeLimits(3);
      limits.max_draft_depth = GreatestDraftDepth();
      // The automatic depth is tried after some steps without drafts.
      Together together(limits, n_requests, {.draft = {.enabled = true, .depth = depth}}, 24);
      together.Finish();
      for (std::size_t i = 0; i < together.answers.size(); ++i) {
        EXPECT_EQ(together.answers[i].tokens, Expected(together.requests[i]).tokens);
      }
      EXPECT_EQ(together.model.most_at_once, depth == 0 && n_requests > 1 ? 3 : 1) << depth;
      EXPECT_EQ(together.metrics.Snapshot().drafted[0] > 0, depth > 0 || n_requests == 1) << depth;
    }
  }
}

TEST(StepsInFlight, WhoIsCancelledWhileItsTokenIsComputedIsForgotten) {
  for (int n_steps = 1; n_steps < 12; ++n_steps) {
    Together together(MakeLimits(3));
    for (int i = 0; i < n_steps; ++i) {
      together.core->Step();
    }
    together.streams[2].Cancel();
    together.Finish();
    EXPECT_EQ(together.answers[2].finish, FinishReason::kCancelled) << n_steps;
    for (const std::size_t i : {0, 1, 3, 4}) {
      EXPECT_EQ(together.answers[i].tokens, Expected(together.requests[i]).tokens) << n_steps;
    }
  }
}

TEST(StepsInFlight, AllAreCancelledAtOnce) {
  Together together(MakeLimits(3));
  together.core->Step();
  together.core->Step();
  together.core->CancelAll();
  together.Finish();
  for (const Answer& answer : together.answers) {
    EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  }
}

TEST(StepsInFlight, AFailureEndsTheRequestsOfItsStep) {
  for (int failing = 0; failing < 10; ++failing) {
    Together together(MakeLimits(2));
    together.model.fail_at_forward = failing;
    together.Finish();
    int n_failed = 0;
    for (std::size_t i = 0; i < together.answers.size(); ++i) {
      const Answer& answer = together.answers[i];
      EXPECT_EQ(answer.n_finished, 1);
      n_failed += answer.finish == FinishReason::kError ? 1 : 0;
      if (answer.finish != FinishReason::kError) {
        EXPECT_EQ(answer.tokens, Expected(together.requests[i]).tokens) << failing;
      }
    }
    EXPECT_GE(n_failed, 1) << failing;
    EXPECT_LT(n_failed, 5) << failing;
  }
}

// Logits that do not fit into one call cannot be awaited.
TEST(StepsInFlight, AStepOfManyRowsEndsBeforeOthersBegin) {
  ModelLimits limits = MakeLimits(2);
  limits.max_logit_rows = 1;
  Together together(limits);
  together.Finish();
  for (std::size_t i = 0; i < together.answers.size(); ++i) {
    EXPECT_EQ(together.answers[i].tokens, Expected(together.requests[i]).tokens);
  }
}

}  // namespace
}  // namespace fathom::engine
