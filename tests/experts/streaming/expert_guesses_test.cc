// Guessed experts: the same bits whatever is guessed, and nothing fails that needs no guess.
#include "experts/streaming/expert_guesses.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kGuessTokens = 70;

ModelOptions GuessSizes() {
  return {.max_sequences = 2,
          .max_context = kGuessTokens + 10,
          .max_batch_tokens = kGuessTokens,
          .max_logit_rows = 32};
}

ModelOptions Guessing(StreamingOptions streaming) {
  streaming.n_read_threads = 4;
  ModelOptions options = GuessSizes();
  options.parts = StreamedParts(std::move(streaming));
  return options;
}

StreamingCounts ReadCounts(TestModel& loaded) {
  return StreamedExperts::FindIn(loaded.model())->counts();
}

// Experts at random, some of them twice.
ChangeGuesses AtRandom(std::int64_t n_experts) {
  return [random = std::minstd_rand(5), n_experts](Matrix<std::int32_t> ids) mutable {
    for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
      ids.data[i] = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n_experts));
    }
  };
}

std::int64_t ReadLate(const ReadCall& call, std::span<std::byte>&) {
  std::minstd_rand random(static_cast<std::uint32_t>(call.number) * 7919 + 1);
  random.discard(3);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  return kReadFile;
}

// --- Bits ---

class GuessBits : public ::testing::TestWithParam<CheckpointCase> {};

TEST_P(GuessBits, AreThoseOfAModelInMemory) {
  const auto directory = GetParam().Directory();
  if (!directory) GTEST_SKIP() << kNoSharedData;
  TestModel in_memory(*directory, GuessSizes());
  const ModelConfig& config = in_memory.model().config();
  const auto tokens = RandomTokens(config, kGuessTokens, 1);
  const Sequence expected = RunAlone(in_memory.model(), tokens, {kGuessTokens});
  const std::int64_t fewest = FewestExpertSlots(config.num_experts_per_tok);
  const std::int64_t all = config.num_hidden_layers * config.n_routed_experts;
  int n = 0;
  for (const std::int64_t slots : {fewest, std::max(fewest, all / 10), all / 2}) {
    for (const bool guesses_at_random : {false, true}) {
      StreamingOptions streaming = {.slots = slots, .guesses = GuessMode::kOn};
      if (guesses_at_random) streaming.change_guesses = AtRandom(config.n_routed_experts);
      if (n % 3 != 2) streaming.open = OpenFaulty(ReadLate);
      TestModel streamed(*directory, Guessing(streaming), {.n_threads = 1 + n % 2});
      for (const std::vector<std::int64_t>& chunks :
           {std::vector<std::int64_t>{1}, {20, 1, 3, 8, 1, 9, 1}}) {
        ExpectSameBits(expected, RunAlone(streamed.model(), tokens, chunks), kGuessTokens,
                       fmt::format("{} slots, at random: {}", slots, guesses_at_random));
      }
      const GuessCounts counts = ReadCounts(streamed).guesses;
      EXPECT_GE(counts.experts, counts.useful);
      EXPECT_GE(counts.experts, counts.reads);
      EXPECT_GE(counts.reads, counts.withdrawn);
      EXPECT_GT(counts.reads, 0);
      ++n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GuessBits, AllCheckpoints(), NameOfCase);

// --- What is read ---

std::filesystem::path Fairy() { return ProjectPath("models/fairy"); }

TEST(ExpertGuesses, AreCountedBeforeAnyIsRead) {
  for (const GuessMode mode : {GuessMode::kAuto, GuessMode::kOff, GuessMode::kOn}) {
    TestModel streamed(Fairy(), Guessing({.slots = 12, .guesses = mode}));
    const auto tokens = RandomTokens(streamed.model().config(), GuessPolicy::kWindowTokens, 3);
    RunAlone(streamed.model(), tokens, {1});
    const GuessCounts counts = ReadCounts(streamed).guesses;
    EXPECT_EQ(counts.experts > 0, mode != GuessMode::kOff);
    EXPECT_EQ(counts.reads > 0, mode == GuessMode::kOn);
  }
}

TEST(ExpertGuesses, AreMadeForFewTokensOnly) {
  TestModel streamed(Fairy(), Guessing({.slots = 12, .guesses = GuessMode::kOn}));
  const auto tokens = RandomTokens(streamed.model().config(), 45, 3);
  RunAlone(streamed.model(), tokens, {ExpertGuesses::kMostTokens + 1});
  EXPECT_EQ(ReadCounts(streamed).guesses.experts, 0);
  RunAlone(streamed.model(), tokens, {ExpertGuesses::kMostTokens});
  EXPECT_GT(ReadCounts(streamed).guesses.experts, 0);
}

// Memory is short: nothing is guessed, and no slots are kept for guesses.
TEST(ExpertGuesses, RestWhileTheyAreNotAllowed) {
  TestModel streamed(Fairy(), Guessing({.slots = 12, .guesses = GuessMode::kOn}));
  StreamedExperts& experts = *StreamedExperts::FindIn(streamed.model());
  const auto tokens = RandomTokens(streamed.model().config(), kGuessTokens, 1);
  for (const bool allowed : {true, false, true}) {
    experts.AllowGuesses(allowed);
    experts.SetSlots(allowed ? 12 : 10);
    const GuessCounts before = experts.counts().guesses;
    RunAlone(streamed.model(), tokens, {1});
    const GuessCounts after = experts.counts().guesses;
    EXPECT_EQ(after.experts > before.experts, allowed);
    EXPECT_EQ(after.reads > before.reads, allowed);
    if (!allowed) {
      EXPECT_EQ(experts.counts().used_slots, 10) << "all of them hold experts that were needed";
    }
  }
}

TEST(ExpertGuesses, KeepTheirRoomWhenThePoolChanges) {
  TestModel in_memory(Fairy(), GuessSizes());
  TestModel streamed(Fairy(), Guessing({.slots = 40, .guesses = GuessMode::kOn}));
  const auto tokens = RandomTokens(in_memory.model().config(), kGuessTokens, 1);
  const Sequence expected = RunAlone(in_memory.model(), tokens, {kGuessTokens});
  StreamedExperts& experts = *StreamedExperts::FindIn(streamed.model());
  for (const std::int64_t slots : {40, 8, 13, 40, 9}) {
    experts.SetSlots(slots);
    const std::int64_t n_before = experts.counts().guesses.reads;
    ExpectSameBits(expected, RunAlone(streamed.model(), tokens, {1}), kGuessTokens,
                   fmt::format("{} slots", slots));
    EXPECT_EQ(experts.counts().slots, slots);
    EXPECT_LE(experts.counts().used_slots, slots);
    if (slots < 40) {
      EXPECT_GT(experts.counts().guesses.reads, n_before);
    }
  }
}

// --- Faults ---

// A model that always guesses one expert, of which one block's cannot be read.
class BrokenGuess {
 public:
  BrokenGuess(std::int64_t block, std::int32_t expert, GuessMode mode)
      : model_(Fairy(),
               Guessing({.slots = 12,
                         .guesses = mode,
                         .change_guesses =
                             [expert](Matrix<std::int32_t> ids) {
                               std::fill_n(ids.data, ids.rows * ids.cols, expert);
                             },
                         .open = OpenFaulty([this](const ReadCall& call, std::span<std::byte>&) {
                           const bool is_broken = call.file == file_ && call.offset == offset_;
                           n_broken_ += is_broken ? 1 : 0;
                           return is_broken ? -EIO : kReadFile;
                         })})) {
    const std::int64_t key = block * model_.model().config().n_routed_experts + expert;
    const FileRange& range = StreamedExperts::FindIn(model_.model())
                                 ->files()
                                 .Ranges(static_cast<std::uint32_t>(key))
                                 .front();
    file_ = range.file;
    offset_ = range.offset;
  }
  TestModel& model() { return model_; }
  std::int64_t n_broken() const { return n_broken_; }
  // Whether a sequence of single tokens runs to its end.
  bool Runs(const std::vector<Token>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      Batch batch;
      batch.Add(0, static_cast<std::int32_t>(i), std::vector<Token>{tokens[i]});
      if (!model_.model().Forward(batch)) return false;
    }
    return true;
  }

 private:
  std::atomic<std::size_t> file_ = 0;
  std::atomic<std::int64_t> offset_ = -1, n_broken_ = 0;
  TestModel model_;
};

TEST(ExpertGuesses, FailNothingWhenTheyCannotBeRead) {
  constexpr std::int64_t kBlock = 3;
  const std::vector<Token> tokens = {7, 7, 7};
  std::int32_t unused = 0;  // an expert that these tokens do not use
  while (!BrokenGuess(kBlock, unused, GuessMode::kOff).Runs(tokens)) ++unused;
  BrokenGuess guess(kBlock, unused, GuessMode::kOn);
  EXPECT_TRUE(guess.Runs(tokens));
  // It ends at the latest when the reads do.
  for (int i = 0; i < 1000 && guess.n_broken() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const StreamingCounts counts = ReadCounts(guess.model());
  EXPECT_GT(guess.n_broken(), 0);
  EXPECT_EQ(counts.failed_reads, 0);
  EXPECT_GT(counts.guesses.reads, 0);
}

}  // namespace
}  // namespace fathom::testing
