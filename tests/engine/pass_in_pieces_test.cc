// Steps of prompts that run a layer at a time: what decodes meanwhile, and who may leave when.
#include "engine/pass_in_pieces.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "tests/engine/core_fixture.h"

namespace fathom::testing {
namespace {

class PassesInPieces : public CoreFixture, public ::testing::Test {
 protected:
  static constexpr std::int64_t kLayers = 3;

  void SetUp() override { Make(Options()); }

  static FakeModelOptions Options() {
    return {.limits = {.vocab_size = kVocabulary,
                       .max_sequences = 4,
                       .max_context = 2'000,
                       .max_batch_tokens = 500,
                       .max_logit_rows = 8,
                       .rollback_tokens = 8,
                       .pause_tokens = 4}};
  }
  // The answer of a model that does not pause, alone.
  std::vector<Token> Alone(const std::vector<Token>& prompt, std::int64_t max_tokens) {
    CoreFixtureOf other;
    return other.Run(prompt, max_tokens);
  }
  // Runs until the request has `n` tokens.
  std::vector<Token> RunUntil(TokenStream& stream, std::int64_t n) {
    std::vector<Token> tokens;
    while (std::ssize(tokens) < n && core_->Step() == StepOutcome::kRan) {
      for (const Token token : Answer(stream)) tokens.push_back(token);
    }
    EXPECT_EQ(std::ssize(tokens), n);
    return tokens;
  }
  void BeginPass() {
    core_->Step();
    EXPECT_EQ(metrics_->Snapshot().pass.layers, 0) << "no layer has run";
    core_->Step();
    EXPECT_EQ(metrics_->Snapshot().pass.layers, kLayers);
    EXPECT_EQ(metrics_->Snapshot().pass.layers_done, 1);
  }
  static std::vector<Token> Joined(std::vector<Token> first, const std::vector<Token>& rest) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  }
  static std::optional<FinishReason> AwaitFinish(TokenStream& stream) {
    std::optional<FinishReason> finish;
    StreamEvent event;
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      if (event.finish) finish = event.finish;
    }
    return finish;
  }

 private:
  struct CoreFixtureOf : CoreFixture {
    std::vector<Token> Run(const std::vector<Token>& prompt, std::int64_t max_tokens) {
      FakeModelOptions options = Options();
      options.limits.pause_tokens = 0;
      Make(options);
      TokenStream stream = Submit(prompt, max_tokens);
      RunAll();
      return Answer(stream);
    }
  };
};

TEST_F(PassesInPieces, SequencesDecodeBetweenLayers) {
  TokenStream first = Submit(Text(20), 40);
  const std::vector<Token> begun = RunUntil(first, 3);
  const std::int64_t n_before = metrics_->Snapshot().generated_tokens;
  TokenStream second = Submit(Text(400, 1), 5);
  BeginPass();
  EXPECT_EQ(metrics_->Snapshot().pass_tokens, 400);
  for (int i = 0; i < 4; ++i) core_->Step();  // a step of the first, a layer, and both again
  EXPECT_EQ(metrics_->Snapshot().pauses, kLayers - 1);
  EXPECT_EQ(metrics_->Snapshot().pass.layers, 0);
  EXPECT_EQ(metrics_->Snapshot().generated_tokens, n_before + kLayers - 1 + 1);
  RunAll();
  EXPECT_EQ(Joined(begun, Answer(first)), Alone(Text(20), 40));
  EXPECT_EQ(Answer(second), Alone(Text(400, 1), 5));
}

// A layer takes 30 ms or more, and a step of sequences that decode 5 ms or more: about six of them
// follow each layer but the last.
TEST_F(PassesInPieces, EachSideGetsHalfOfTheTime) {
  pauses_each_layer_ = false;
  Make(Options());
  model_->forward_takes = std::chrono::milliseconds(5);
  model_->on_layer = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  TokenStream first = Submit(Text(20), 1'000);
  RunUntil(first, 1);
  TokenStream second = Submit(Text(400, 1), 1);
  std::int64_t n_pauses = 0;
  double layer_seconds = 0;
  while (metrics_->Snapshot().prompt_tokens < 420) {
    n_pauses = metrics_->Snapshot().pauses;
    const Clock::time_point begin = Clock::now();
    core_->Step();
    if (metrics_->Snapshot().pauses == n_pauses) layer_seconds += SecondsSince(begin);
    Answer(first);  // room for its next tokens
  }
  EXPECT_GE(n_pauses, kLayers - 1);
  // They would run until the first request has ended.
  EXPECT_LE(static_cast<double>(n_pauses - 1) * .005, layer_seconds);
}

TEST_F(PassesInPieces, WithoutOthersLayersFollowEachOther) {
  TokenStream stream = Submit(Text(400), 1);
  for (std::int64_t i = 0; i < 1 + kLayers; ++i) core_->Step();
  EXPECT_EQ(metrics_->Snapshot().pauses, 0);
  EXPECT_EQ(Answer(stream), Alone(Text(400), 1));
}

TEST_F(PassesInPieces, AStepWhoseRequestsHaveAllEndedStops) {
  TokenStream first = Submit(Text(20), 40);
  const std::vector<Token> begun = RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  TokenStream third = Submit(Text(200, 2), 5);
  BeginPass();
  second.Cancel();
  third.Cancel();
  core_->Step();
  EXPECT_EQ(AwaitFinish(second), FinishReason::kCancelled);
  EXPECT_EQ(AwaitFinish(third), FinishReason::kCancelled);
  EXPECT_EQ(metrics_->Snapshot().stopped_passes, 1);
  EXPECT_EQ(metrics_->Snapshot().pass.layers, 0);
  EXPECT_EQ(core_->n_requests(), 1);
  EXPECT_TRUE(core_->caches().IsConsistent());
  RunAll();
  EXPECT_EQ(Joined(begun, Answer(first)), Alone(Text(20), 40));
  TokenStream again = Submit(Text(200, 1), 5);
  RunAll();
  EXPECT_EQ(Answer(again), Alone(Text(200, 1), 5));
}

TEST_F(PassesInPieces, ALayerStopsWhenItsRequestsAreCancelled) {
  TokenStream first = Submit(Text(20), 40);
  const std::vector<Token> begun = RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  BeginPass();
  model_->on_layer = [&] { second.Cancel(); };
  while (metrics_->Snapshot().pass.layers > 0) core_->Step();
  model_->on_layer = {};
  EXPECT_EQ(AwaitFinish(second), FinishReason::kCancelled);
  EXPECT_EQ(metrics_->Snapshot().stopped_passes, 1);
  EXPECT_EQ(core_->n_requests(), 1);
  EXPECT_TRUE(core_->caches().IsConsistent());
  RunAll();
  EXPECT_EQ(Joined(begun, Answer(first)), Alone(Text(20), 40));
}

// The stream ends at once; slot and blocks are kept, since the pass goes on to write there.
TEST_F(PassesInPieces, WhoLeavesAPassKeepsItsBlocksUntilItEnds) {
  TokenStream first = Submit(Text(20), 40);
  const std::vector<Token> begun = RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  TokenStream third = Submit(Text(200, 2), 5);
  BeginPass();
  const std::int64_t used = model_->cache().arena().in_use().history;
  second.Cancel();
  core_->Step();
  EXPECT_EQ(AwaitFinish(second), FinishReason::kCancelled);
  EXPECT_EQ(core_->n_requests(), 2);
  EXPECT_EQ(model_->cache().arena().in_use().history, used);
  RunAll();
  EXPECT_EQ(metrics_->Snapshot().stopped_passes, 0);
  EXPECT_EQ(Joined(begun, Answer(first)), Alone(Text(20), 40));
  EXPECT_EQ(Answer(third), Alone(Text(200, 2), 5));
}

TEST_F(PassesInPieces, AnErrorOfThePassEndsItsRequestsAlone) {
  TokenStream first = Submit(Text(20), 40);
  const std::vector<Token> begun = RunUntil(first, 2);
  model_->fail_at_forward = model_->n_forwards;
  TokenStream second = Submit(Text(200, 1), 5);
  RunAll();
  EXPECT_EQ(AwaitFinish(second), FinishReason::kError);
  EXPECT_EQ(Joined(begun, Answer(first)), Alone(Text(20), 40));
}

TEST_F(PassesInPieces, AnErrorInAPauseEndsTheRequestsThatDecode) {
  TokenStream first = Submit(Text(20), 40);
  RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  BeginPass();
  model_->fail_at_forward = model_->n_forwards;
  RunAll();
  EXPECT_EQ(AwaitFinish(first), FinishReason::kError);
  EXPECT_EQ(Answer(second), Alone(Text(200, 1), 5));
}

TEST_F(PassesInPieces, AllAreCancelledInThePass) {
  TokenStream first = Submit(Text(20), 40);
  RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  BeginPass();
  core_->CancelAll();
  EXPECT_EQ(AwaitFinish(first), FinishReason::kCancelled);
  EXPECT_EQ(AwaitFinish(second), FinishReason::kCancelled);
  EXPECT_EQ(core_->Step(), StepOutcome::kIdle);
  EXPECT_TRUE(core_->caches().IsConsistent());
}

// The weights are broken: no step runs any more.
TEST_F(PassesInPieces, AnErrorInAPauseThatEndsTheEngineStopsThePass) {
  TokenStream first = Submit(Text(20), 40);
  RunUntil(first, 2);
  TokenStream second = Submit(Text(200, 1), 5);
  BeginPass();
  model_->fail_at_forward = model_->n_forwards;
  model_->fail_code = ErrorCode::kInvalidData;
  core_->Step();
  ASSERT_TRUE(core_->failure());
  core_->FailAll(*core_->failure());
  EXPECT_EQ(AwaitFinish(first), FinishReason::kError);
  EXPECT_EQ(AwaitFinish(second), FinishReason::kError);
  EXPECT_TRUE(core_->caches().IsConsistent());
}

TEST_F(PassesInPieces, TheEngineMayEndInAPass) {
  TokenStream stream = Submit(Text(200), 5);
  core_->Step();
  core_->Step();
  core_.reset();  // the model is free for another engine
  ASSERT_TRUE(EngineCore::Create(*model_, {}, *metrics_));
  Batch batch;
  batch.Add(0, 0, Text(200));
  EXPECT_TRUE(model_->BeginPass(batch, {}));
}

}  // namespace
}  // namespace fathom::testing
