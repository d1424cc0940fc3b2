// Passes in pieces: the bits of a whole pass, whatever other sequences run between their layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kPrompt = 60;
constexpr std::int64_t kPauseTokens = 8;

ModelOptions Sizes() {
  return {.max_sequences = 4,
          .max_context = 2 * kPrompt,
          .max_batch_tokens = kPrompt,
          .max_logit_rows = 16,
          .pause_tokens = kPauseTokens,
          .with_draft = true};
}

class PausedPass : public ::testing::TestWithParam<CheckpointCase> {
 protected:
  void SetUp() override {
    directory_ = GetParam().Directory();
    if (!directory_) GTEST_SKIP() << kNoSharedData;
    TestModel whole(*directory_, Sizes());
    config_ = whole.model().config();
    for (std::uint32_t i = 0; i < 2; ++i) {
      tokens_.push_back(RandomTokens(config_, kPrompt + 20, i + 1));
      expected_.push_back(RunAlone(whole.model(), tokens_[i], {kPrompt, 1}));
    }
  }
  std::int64_t n_layers() const { return config_.num_hidden_layers; }
  ModelOptions Streamed(StreamingOptions streaming) const {
    streaming.slots = FewestExpertSlots(config_.num_experts_per_tok);
    streaming.n_read_threads = 4;
    ModelOptions options = Sizes();
    options.parts = StreamedParts(std::move(streaming));
    return options;
  }
  Sequence Make(std::size_t i) const { return {config_, static_cast<std::int32_t>(i), tokens_[i]}; }
  // A pass of a prompt, and another sequence between all of its layers, in steps of some tokens
  // with drafts; then both together.
  void ExpectSameBesideOthers(Model& model, const std::string& what) {
    Sequence prompt = Make(0);
    Sequence other = Make(1);
    Step(model, {{&other, 10}});
    std::int64_t n = 0;
    StepInPieces(model, {{&prompt, kPrompt}}, [&] { Step(model, {{&other, 1 + n++ % 3}}); });
    EXPECT_EQ(n, n_layers()) << what;
    while (prompt.left() > 0 && other.left() > 0) Step(model, {{&prompt, 1}, {&other, 1}});
    ExpectSameBits(expected_[0], prompt, prompt.done, what + ": the prompt");
    ExpectSameBits(expected_[1], other, other.done, what + ": the other");
  }

  std::optional<std::filesystem::path> directory_;
  ModelConfig config_;
  std::vector<std::vector<Token>> tokens_;
  std::vector<Sequence> expected_;
};

TEST_P(PausedPass, HasTheBitsOfAWholePass) {
  for (const bool prefetch : {true, false}) {
    const GuessMode guesses = prefetch ? GuessMode::kOn : GuessMode::kOff;
    TestModel streamed(*directory_, Streamed({.prefetch = prefetch, .guesses = guesses}));
    for (int i = 0; i < 2; ++i) {
      ExpectSameBesideOthers(streamed.model(), prefetch ? "read ahead" : "not read ahead");
    }
  }
  TestModel in_memory(*directory_, Sizes());
  ExpectSameBesideOthers(in_memory.model(), "in memory");
  TestModel remote(*directory_, Sizes(), {.memory = TestMemory::kRemoteAwaited});
  ExpectSameBesideOthers(remote.model(), "memory that the host does not reach");
}

TEST_P(PausedPass, MayStopAfterAnyLayer) {
  TestModel streamed(*directory_, Streamed({}));
  Model& model = streamed.model();
  std::vector<SequenceFailure> failed;
  for (std::int64_t n = 0; n < n_layers(); ++n) {
    Sequence other = Make(1);
    Step(model, {{&other, 10}});
    Batch batch;
    batch.Add(0, 0, std::span(tokens_[0]).first(kPrompt));
    Result<std::unique_ptr<LayeredPass>> pass = model.BeginPass(batch);
    ASSERT_TRUE(pass);
    for (std::int64_t i = 0; i < n; ++i) {
      const Result<PassProgress> progress = (*pass)->Continue(failed);
      ASSERT_TRUE(progress);
      EXPECT_EQ(progress->layers_done, i + 1);
      EXPECT_EQ(progress->layers, n_layers());
      Step(model, {{&other, 1}});
    }
    pass->reset();
    EXPECT_EQ(model.cache().next_position(0), 0);
    Step(model, {{&other, std::min(kPrompt, other.left())}});
    ExpectSameBits(expected_[1], other, other.done, "the other");
  }
  ExpectSameBesideOthers(model, "afterwards");
}

TEST_P(PausedPass, LeavesLittleRoomForOthers) {
  TestModel streamed(*directory_, Streamed({}));
  Model& model = streamed.model();
  Batch batch;
  batch.Add(0, 0, std::span(tokens_[0]).first(kPrompt));
  Result<std::unique_ptr<LayeredPass>> pass = model.BeginPass(batch);
  ASSERT_TRUE(pass);
  Batch large;
  large.Add(1, 0, std::span(tokens_[1]).first(kPauseTokens + 1));
  const Status ran = model.Forward(large);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "batch: expected at most 8 tokens, found 9");
  pass->reset();
  EXPECT_TRUE(model.Forward(large));
}

// Nobody waits for the pass any more while a layer reads its experts: it stops between two of them.
TEST_P(PausedPass, StopsWithinALayer) {
  TestModel streamed(*directory_, Streamed({.prefetch = false}));
  Model& model = streamed.model();
  const auto n_read = [&] { return StreamedExperts::FindIn(model)->counts().read_experts; };
  Sequence other = Make(1);
  Step(model, {{&other, 10}});
  Batch batch;
  batch.Add(0, 0, std::span(tokens_[0]).first(kPrompt));
  int n_asked = 0, last = 1'000'000;
  Result<std::unique_ptr<LayeredPass>> pass =
      model.BeginPass(batch, [&] { return ++n_asked >= last; });
  ASSERT_TRUE(pass);
  std::vector<SequenceFailure> failed;
  ASSERT_TRUE((*pass)->Continue(failed));
  const int n_of_layer = n_asked;
  EXPECT_GT(n_of_layer, 1);
  n_asked = 0;
  last = 2;
  const std::int64_t n_before = n_read();
  const Result<PassProgress> progress = (*pass)->Continue(failed);
  ASSERT_FALSE(progress);
  EXPECT_EQ(progress.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(n_asked, 2);
  EXPECT_LE(n_read() - n_before, config_.n_routed_experts);
  EXPECT_EQ(model.cache().next_position(0), 0);
  Step(model, {{&other, 3}});
  ExpectSameBits(expected_[1], other, other.done, "the other");
  Sequence again = Make(0);
  Step(model, {{&again, kPrompt}});
  ExpectSameBits(expected_[0], again, again.done, "the prompt, once more");
}

// A disk that fails while one of the two needs it: the other has its bits.
TEST_P(PausedPass, FailsAlone) {
  std::atomic<bool> fails = false;
  const Fault fault = [&fails](const ReadCall& call, std::span<std::byte>&) {
    return fails && call.offset > 0 ? -EIO : kReadFile;
  };
  TestModel streamed(*directory_, Streamed({.prefetch = false, .open = OpenFaulty(fault)}));
  Model& model = streamed.model();
  for (const bool pass_fails : {true, false}) {
    Sequence other = Make(1);
    Step(model, {{&other, 10}});
    Batch batch;
    batch.Add(0, 0, std::span(tokens_[0]).first(kPrompt));
    Result<std::unique_ptr<LayeredPass>> pass = model.BeginPass(batch);
    ASSERT_TRUE(pass);
    std::vector<SequenceFailure> failed;
    Result<PassProgress> progress = (*pass)->Continue(failed);
    ASSERT_TRUE(progress);
    fails = true;
    if (pass_fails) {
      progress = (*pass)->Continue(failed);  // reads most experts of a layer
      ASSERT_FALSE(progress);
      EXPECT_EQ(progress.error().code, ErrorCode::kIo);
      EXPECT_EQ(model.cache().next_position(0), 0);
      fails = false;
      Step(model, {{&other, 1}});
      ExpectSameBits(expected_[1], other, other.done, "the other");
    } else {
      Batch next;
      next.Add(1, 10, std::span(tokens_[1]).subspan(10, kPauseTokens));
      const Status ran = model.Forward(next);
      ASSERT_FALSE(ran);
      EXPECT_EQ(ran.error().code, ErrorCode::kIo);
      EXPECT_EQ(model.cache().next_position(1), 0);
      fails = false;
      while (progress && !progress->HasEnded()) progress = (*pass)->Continue(failed);
      ASSERT_TRUE(progress);
      EXPECT_TRUE(failed.empty());
      const std::int32_t rows[] = {static_cast<std::int32_t>(kPrompt - 1)};
      const auto logits = model.Logits(rows);
      ASSERT_TRUE(logits);
      const auto row = std::span(expected_[0].logits)
                           .subspan(static_cast<std::size_t>((kPrompt - 1) * config_.vocab_size),
                                    static_cast<std::size_t>(config_.vocab_size));
      EXPECT_TRUE(std::ranges::equal(logits->RowSpan(0), row));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PausedPass, ::testing::Values(kFairy, kFlashMini, kProMini),
                         NameOfCase);

}  // namespace
}  // namespace fathom::testing
