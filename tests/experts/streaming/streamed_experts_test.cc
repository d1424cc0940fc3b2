// Experts that are streamed from disk: the bits of a model in memory, whatever the disk does, or an
// error.
#include "experts/streaming/streamed_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "experts/expert_parts.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using ::testing::AllOf;
using testing::Fault;
using ::testing::HasSubstr;
using testing::kReadFile;
using testing::ReadCall;
using testing::Sequence;
using testing::TestModel;

constexpr std::int64_t kStreamedTokens = 90;

ModelOptions ModelSizes() {
  return {.max_sequences = 8,
          .max_context = kStreamedTokens,
          .max_batch_tokens = kStreamedTokens,
          .max_logit_rows = 32,
          .with_draft = true};
}

ModelOptions Streamed(StreamingOptions streaming) {
  ModelOptions options = ModelSizes();
  if (!streaming.open && streaming.n_read_threads == 0) streaming.calibration_seconds = 0.02;
  options.parts = StreamedParts(std::move(streaming));
  return options;
}

StreamingCounts ReadStreamingCounts(TestModel& loaded) {
  StreamedExperts* const experts = StreamedExperts::FindIn(loaded.model());
  Check(experts != nullptr, "a model whose experts are streamed");
  return experts->counts();
}

// Reads end in any order: each waits up to `longest`.
Fault Delays(std::uint32_t seed, std::chrono::microseconds longest) {
  return [seed, longest](const ReadCall& call, std::span<std::byte>&) {
    std::minstd_rand random(seed + static_cast<std::uint32_t>(call.number) * 7919);
    random.discard(3);
    std::this_thread::sleep_for(longest * (random() % 100) / 100);
    return kReadFile;
  };
}

Batch One(Token token, std::int32_t position = 0, std::int32_t sequence = 0) {
  Batch batch;
  batch.Add(sequence, position, std::vector<Token>{token});
  return batch;
}

// --- Bits ---

class StreamedBits : public ::testing::TestWithParam<testing::CheckpointCase> {
 protected:
  void SetUp() override {
    directory_ = GetParam().Directory();
    if (!directory_) GTEST_SKIP() << testing::kNoSharedData;
    in_memory_ = std::make_unique<TestModel>(*directory_, ModelSizes());
    const ModelConfig& config = in_memory_->model().config();
    fewest_ = FewestExpertSlots(config.num_experts_per_tok);
    n_experts_ = config.n_routed_experts * (config.num_hidden_layers + 1);
    tokens_ = testing::RandomTokens(config, kStreamedTokens, 1);
    expected_.emplace(testing::RunAlone(in_memory_->model(), tokens_, {kStreamedTokens}));
  }

  void ExpectSame(const ModelOptions& options, int n_threads, const std::string& what) {
    TestModel streamed(*directory_, options, {.n_threads = n_threads});
    for (const std::vector<std::int64_t>& chunks :
         {std::vector<std::int64_t>{1}, {40, 1, 1, 7, 1}, {kStreamedTokens}}) {
      testing::ExpectSameBits(*expected_, testing::RunAlone(streamed.model(), tokens_, chunks),
                              kStreamedTokens, what);
    }
    EXPECT_GT(ReadStreamingCounts(streamed).read_bytes, 0) << what;
  }

  std::optional<std::filesystem::path> directory_;
  std::unique_ptr<TestModel> in_memory_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;
  std::int64_t fewest_ = 0, n_experts_ = 0;
};

TEST_P(StreamedBits, AnyNumberOfSlotsAndThreads) {
  for (const std::int64_t slots : {fewest_, std::max(fewest_, n_experts_ / 10), n_experts_ / 2}) {
    for (const int n_threads : {1, 2}) {
      const bool prefetch = (slots == fewest_) == (n_threads == 1);
      ExpectSame(Streamed({.slots = slots, .prefetch = prefetch}), n_threads,
                 fmt::format("{} slots, {} threads, prefetch {}", slots, n_threads, prefetch));
    }
  }
}

TEST_P(StreamedBits, AnyOrderInWhichReadsEnd) {
  for (std::uint32_t seed = 0; seed < 2; ++seed) {
    ExpectSame(
        Streamed({.slots = fewest_ + static_cast<std::int64_t>(seed),
                  .n_read_threads = 8,
                  .prefetch = seed % 2 == 0,
                  .open = testing::OpenFaulty(Delays(seed, std::chrono::microseconds(200)))}),
        2, fmt::format("seed {}", seed));
  }
}

TEST_P(StreamedBits, DirectAndBuffered) {
  for (const ReadMode mode : {ReadMode::kDirect, ReadMode::kBuffered}) {
    ExpectSame(Streamed({.slots = fewest_, .mode = mode, .n_read_threads = 4}), 1, "mode");
  }
}

TEST_P(StreamedBits, FromTwoDrives) {
  const testing::TemporaryDirectory directory;
  std::filesystem::copy(*directory_, directory.path() / "copy");
  ExpectSame(Streamed({.slots = fewest_,
                       .mode = ReadMode::kDirect,
                       .n_read_threads = 4,
                       .mirror = directory.path() / "copy"}),
             2, "mirror");
}

// The dense weights lie in huge pages, the experts in the pool.
TEST_P(StreamedBits, DenseWeightsInHugePages) {
  ModelOptions options = Streamed({.slots = fewest_, .n_read_threads = 4});
  options.weights.huge_pages = true;
  ExpectSame(options, 2, "huge pages");
}

TEST_P(StreamedBits, ManySequences) {
  TestModel streamed(
      *directory_,
      Streamed({.slots = fewest_,
                .n_read_threads = 8,
                .open = testing::OpenFaulty(Delays(9, std::chrono::microseconds(100)))}));
  const ModelConfig& config = streamed.model().config();
  std::vector<Sequence> mine, theirs;
  for (std::int32_t slot = 0; slot < 8; ++slot) {
    const auto tokens =
        testing::RandomTokens(config, 20 + slot, static_cast<std::uint32_t>(slot + 50));
    mine.emplace_back(config, slot, tokens);
    theirs.push_back(testing::RunAlone(in_memory_->model(), tokens, {kStreamedTokens}));
  }
  std::minstd_rand random(4);
  for (bool runs = true; runs;) {
    std::vector<testing::Piece> pieces;
    for (Sequence& sequence : mine) {
      const auto n = std::min<std::int64_t>(sequence.left(), 1 + static_cast<int>(random() % 4));
      if (n > 0) pieces.push_back({&sequence, n});
    }
    runs = !pieces.empty();
    if (runs) testing::Step(streamed.model(), pieces);
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    testing::ExpectSameBits(theirs[i], mine[i], std::ssize(mine[i].tokens),
                            fmt::format("sequence {}", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, StreamedBits, testing::AllCheckpoints(), testing::NameOfCase);

// --- Counters ---

std::filesystem::path Fairy() { return testing::ProjectPath("models/fairy"); }

TEST(StreamedExperts, ReadsWhatItMissesAndNothingElse) {
  std::atomic<std::int64_t> read_bytes = 0;
  TestModel streamed(
      Fairy(),
      Streamed({.slots = 16,
                .n_read_threads = 4,
                .prefetch = false,
                .open = testing::OpenFaulty([&](const ReadCall&, std::span<std::byte>& to) {
                  read_bytes += std::ssize(to);
                  std::this_thread::sleep_for(std::chrono::microseconds(100));
                  return kReadFile;
                })}));
  testing::RunAlone(streamed.model(), testing::RandomTokens(streamed.model().config(), 60, 3), {1});
  const StreamingCounts counts = ReadStreamingCounts(streamed);
  EXPECT_EQ(counts.read_experts, counts.uses() - counts.hits());
  EXPECT_EQ(counts.failed_reads, 0);
  EXPECT_EQ(counts.read_bytes, read_bytes);
  const ExpertFiles& files = StreamedExperts::FindIn(streamed.model())->files();
  EXPECT_LE(counts.read_bytes, counts.read_experts * files.slot_bytes());
  EXPECT_GE(counts.read_bytes, counts.read_experts * (files.slot_bytes() - 2 * kReadBlockBytes));
  EXPECT_GT(counts.hits(), 0);
  EXPECT_GT(counts.hash_uses, 0);
  EXPECT_EQ(counts.tokens, 60);
  EXPECT_GT(counts.stall_bytes, 0) << "no expert of this model is computed in 100 us";
  EXPECT_LE(counts.stall_bytes, counts.read_bytes);
}

TEST(StreamedExperts, ReadsEachExpertOfAPromptOnce) {
  ModelOptions options = Streamed({.slots = 8, .n_read_threads = 4});
  options.with_draft = false;
  TestModel streamed(Fairy(), options);
  const ModelConfig& config = streamed.model().config();
  Batch batch;
  batch.Add(0, 0, testing::RandomTokens(config, kStreamedTokens, 3));
  ASSERT_TRUE(streamed.model().Forward(batch));
  const StreamingCounts counts = ReadStreamingCounts(streamed);
  EXPECT_GE(counts.uses(), config.num_hidden_layers * config.n_routed_experts - 3)
      << "so many tokens use nearly all experts";
  EXPECT_EQ(counts.read_experts, counts.uses());
}

// The experts that answers use stay in memory while a long prompt passes through it.
TEST(StreamedExperts, APromptDoesNotFlushThePool) {
  ModelOptions options = Streamed({.slots = 24, .n_read_threads = 4, .prefetch = false});
  options.with_draft = false;
  TestModel streamed(Fairy(), options);
  const auto misses_of_answer = [&] {
    const StreamingCounts before = ReadStreamingCounts(streamed);
    EXPECT_TRUE(streamed.model().Forward(One(7)));
    const StreamingCounts after = ReadStreamingCounts(streamed);
    return after.read_experts - before.read_experts;
  };
  for (int i = 0; i < 200; ++i) misses_of_answer();
  EXPECT_EQ(misses_of_answer(), 0);
  Batch prompt;
  prompt.Add(1, 0, testing::RandomTokens(streamed.model().config(), kStreamedTokens, 3));
  ASSERT_TRUE(streamed.model().Forward(prompt));
  EXPECT_LE(misses_of_answer(), 3) << "of twelve experts";
}

TEST(StreamedExperts, ReadsExpertsOfHashLayersAhead) {
  ModelOptions options = Streamed({.slots = 16, .n_read_threads = 4});
  options.with_draft = false;
  TestModel streamed(Fairy(), options);
  testing::RunAlone(streamed.model(), testing::RandomTokens(streamed.model().config(), 60, 3), {1});
  const StreamingCounts counts = ReadStreamingCounts(streamed);
  EXPECT_EQ(counts.ahead_experts, counts.hash_uses - counts.hash_hits);
  EXPECT_EQ(counts.ahead_used, counts.ahead_experts);
  EXPECT_GT(counts.ahead_experts, 0);
}

TEST(StreamedExperts, ThePoolShrinksAndGrowsBetweenSteps) {
  TestModel in_memory(Fairy(), ModelSizes());
  TestModel streamed(Fairy(), Streamed({.slots = 40, .n_read_threads = 4}));
  const auto tokens = testing::RandomTokens(in_memory.model().config(), kStreamedTokens, 1);
  const Sequence expected = testing::RunAlone(in_memory.model(), tokens, {kStreamedTokens});
  StreamedExperts& experts = *StreamedExperts::FindIn(streamed.model());
  for (const auto& [asked, slots] : {std::pair(40, 40), {1, 8}, {13, 13}, {1000, 40}, {9, 9}}) {
    experts.SetSlots(asked);
    testing::ExpectSameBits(expected, testing::RunAlone(streamed.model(), tokens, {20, 1}),
                            kStreamedTokens, fmt::format("{} slots", asked));
    EXPECT_EQ(experts.counts().slots, slots);
    EXPECT_LE(experts.counts().used_slots, slots);
  }
}

TEST(StreamedExperts, RefusesTooFewSlots) {
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend({}, 1);
  ASSERT_TRUE(backend);
  const auto model = Model::Load(Fairy(), **backend, Streamed({.slots = 7}));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(model.error().message,
            "experts streamed from disk: expected memory for at least 8 experts, found memory for "
            "7");
}

TEST(StreamedExperts, RefusesADevice) {
  const auto backend = testing::MakeTestBackend({.memory = testing::TestMemory::kRemote});
  const auto model = Model::Load(Fairy(), *backend, Streamed({.slots = 8}));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
}

// --- Faults ---

// A step with random tokens while the disk has a fault, and afterwards.
class StreamedFaults : public ::testing::Test {
 protected:
  StreamedFaults() : in_memory_(Fairy(), ModelSizes()) {
    tokens_ = testing::RandomTokens(in_memory_.model().config(), kStreamedTokens, 1);
    expected_.emplace(testing::RunAlone(in_memory_.model(), tokens_, {kStreamedTokens}));
  }
  void Load(Fault fault, StreamingOptions streaming = {.slots = 8}) {
    streaming.n_read_threads = 4;
    streaming.open = testing::OpenFaulty(std::move(fault));
    streamed_ = std::make_unique<TestModel>(Fairy(), Streamed(std::move(streaming)));
  }
  Status Forward() {
    Batch batch;
    batch.Add(0, 0, tokens_);
    return streamed_->model().Forward(batch);
  }
  void ExpectRight(const std::string& what) {
    testing::ExpectSameBits(*expected_, testing::RunAlone(streamed_->model(), tokens_, {30, 1}),
                            kStreamedTokens, what);
  }

  TestModel in_memory_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;
  std::unique_ptr<TestModel> streamed_;
};

TEST_F(StreamedFaults, ShortReadsGoOn) {
  Load([](const ReadCall& call, std::span<std::byte>& to) {
    if (call.number % 3 != 0) to = to.first(std::min<std::size_t>(to.size(), 1 + 4099 % to.size()));
    return kReadFile;
  });
  ExpectRight("short reads");
}

TEST_F(StreamedFaults, InterruptedReadsGoOn) {
  Load([](const ReadCall& call, std::span<std::byte>&) {
    return call.number % 2 == 0 ? -EINTR : kReadFile;
  });
  ExpectRight("interrupted reads");
}

TEST_F(StreamedFaults, ReadsThatFailOnceAreTriedAgain) {
  Load([](const ReadCall& call, std::span<std::byte>&) {
    return call.number % 5 == 0 ? -EIO : kReadFile;
  });
  ExpectRight("reads that fail once");
}

TEST_F(StreamedFaults, ADiskThatFailsFailsTheStepAndNamesThePlace) {
  std::atomic<bool> fails = true;
  Load([&fails](const ReadCall& call, std::span<std::byte>&) {
    return fails && call.offset > 0 ? -EIO : kReadFile;
  });
  for (int i = 0; i < 3; ++i) {
    const Status ran = Forward();
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::kIo);
    EXPECT_THAT(ran.error().message,
                AllOf(HasSubstr("storage_error: "), HasSubstr(".safetensors, offset "),
                      HasSubstr("Input/output error (errno 5)")));
  }
  EXPECT_TRUE(ReadStreamingCounts(*streamed_).DiskFails(std::chrono::steady_clock::now()));
  fails = false;
  ExpectRight("after the fault");
}

// Steps that do not need the broken expert run.
TEST_F(StreamedFaults, OnlyWhatNeedsTheBrokenPlaceFails) {
  std::int64_t broken = -1;
  Load([&broken](const ReadCall& call, std::span<std::byte>&) {
    return call.file == 2 && call.offset == broken ? -EIO : kReadFile;
  });
  broken = StreamedExperts::FindIn(streamed_->model())->files().Ranges(2 * 8 + 3).front().offset;
  int n_failed = 0;
  for (Token token = 0; token < 40; ++token)
    n_failed += streamed_->model().Forward(One(token)) ? 0 : 1;
  EXPECT_LT(n_failed, 40);
}

// Eight sequences of one token each, of which some need an expert that cannot be read.
class StreamedCompany : public StreamedFaults {
 protected:
  static constexpr std::int32_t kSequences = 8;
  static constexpr std::int32_t kBrokenExpert = 3;

  // The token of a sequence at a position.
  Token ChooseToken(std::int32_t sequence, std::int32_t position) const {
    return tokens_[static_cast<std::size_t>(sequence * 10 + position)];
  }
  Batch All(std::int32_t position) const {
    Batch batch;
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      batch.Add(slot, position, std::vector<Token>{ChooseToken(slot, position)});
    }
    return batch;
  }
  // The sequences whose first token uses the expert in the block.
  std::set<std::int32_t> FindUsers(std::int64_t block, std::int32_t expert) {
    std::set<std::int32_t> users;
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      std::int64_t next = 0;
      in_memory_.model().ObserveRouting([&](Matrix<const std::int32_t> ids) {
        const auto chosen = ids.RowSpan(0);
        if (next++ == block && std::ranges::find(chosen, expert) != chosen.end()) {
          users.insert(slot);
        }
      });
      EXPECT_TRUE(in_memory_.model().Forward(One(ChooseToken(slot, 0))));
    }
    in_memory_.model().ObserveRouting({});
    return users;
  }
  std::vector<float> LogitsInMemory(std::int32_t slot, std::int32_t n_tokens) {
    for (std::int32_t position = 0; position < n_tokens; ++position) {
      EXPECT_TRUE(in_memory_.model().Forward(One(ChooseToken(slot, position), position)));
    }
    return ReadRow(in_memory_.model(), 0);
  }
  static std::vector<float> ReadRow(Model& model, std::int32_t row) {
    const std::vector<std::int32_t> rows = {row};
    const auto logits = model.Logits(rows);
    EXPECT_TRUE(logits);
    return {logits->RowSpan(0).begin(), logits->RowSpan(0).end()};
  }
  // The place of the weights that no sequence can read while `fails`.
  Fault Breaks() {
    return [this](const ReadCall& call, std::span<std::byte>&) {
      const bool is_there = call.file == file_ && call.offset == offset_;
      return fails_ && is_there ? -EIO : kReadFile;
    };
  }
  void LoadBroken(std::int64_t block, Fault fault, StreamingOptions streaming) {
    Load(std::move(fault), std::move(streaming));
    const FileRange& range = StreamedExperts::FindIn(streamed_->model())
                                 ->files()
                                 .Ranges(static_cast<std::size_t>(block * 8 + kBrokenExpert))
                                 .front();
    file_ = range.file;
    offset_ = range.offset;
    fails_ = true;
  }
  // A step in which exactly `users` fail, one in which the others go on, and, after the fault, all
  // sequences from their beginning.
  void ExpectOthersGoOn(const std::set<std::int32_t>& users, const std::string& message) {
    std::vector<SequenceFailure> failed;
    const Status ran = streamed_->model().Forward(All(0), failed);
    ASSERT_TRUE(ran) << ran.error().message;
    std::set<std::int32_t> found;
    for (const SequenceFailure& failure : failed) {
      found.insert(failure.sequence);
      EXPECT_EQ(failure.error.code, ErrorCode::kIo);
      EXPECT_THAT(failure.error.message,
                  AllOf(HasSubstr("storage_error: "), HasSubstr(".safetensors, offset "),
                        HasSubstr(message)));
    }
    EXPECT_EQ(found, users);
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      if (users.contains(slot)) continue;
      EXPECT_EQ(ReadRow(streamed_->model(), slot), LogitsInMemory(slot, 1)) << "sequence " << slot;
    }
  }
  void ExpectAllAgain() {
    fails_ = false;
    for (std::int32_t position = 0; position < 2; ++position) {
      ASSERT_TRUE(streamed_->model().Forward(All(position)));
    }
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      EXPECT_EQ(ReadRow(streamed_->model(), slot), LogitsInMemory(slot, 2)) << "sequence " << slot;
    }
  }

  std::size_t file_ = 0;
  std::atomic<std::int64_t> offset_ = -1;
  std::atomic<bool> fails_ = false;
};

// In a hash layer, whose experts are read ahead, and in learned ones.
TEST_F(StreamedCompany, OnlySequencesThatNeedTheBrokenExpertFail) {
  int n_isolated = 0;
  for (std::int64_t block = 0; block < in_memory_.model().config().num_hidden_layers; ++block) {
    const std::set<std::int32_t> users = FindUsers(block, kBrokenExpert);
    if (users.empty() || std::ssize(users) == kSequences) continue;
    ++n_isolated;
    LoadBroken(block, Breaks(), {.slots = 16});
    ExpectOthersGoOn(users, "Input/output error (errno 5)");
    ExpectAllAgain();
  }
  EXPECT_GE(n_isolated, 2);
}

// A caller of Forward without a list of failures must not take the rows for results.
TEST_F(StreamedCompany, WithoutAListOfFailuresTheStepFails) {
  const std::int64_t block = in_memory_.model().config().num_hidden_layers - 1;
  ASSERT_FALSE(FindUsers(block, kBrokenExpert).empty());
  LoadBroken(block, Breaks(), {.slots = 16});
  const Status ran = streamed_->model().Forward(All(0));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::kIo);
  ExpectAllAgain();
}

TEST_F(StreamedFaults, ATruncatedShardIsNamed) {
  Load([](const ReadCall& call, std::span<std::byte>&) {
    return call.number > 20 ? std::int64_t{0} : kReadFile;
  });
  const Status ran = Forward();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::kInvalidData);
  EXPECT_THAT(ran.error().message,
              AllOf(HasSubstr(".safetensors: shard truncated: expected bytes "),
                    HasSubstr(", found the end at ")));
}

// Reads that wait until they are told to go on.
class Hang {
 public:
  ~Hang() { End(); }
  void End() {
    if (!ended_.exchange(true)) promise_.set_value();
  }
  Fault fault(std::int64_t from) {
    return
        [from, go_on = promise_.get_future().share()](const ReadCall& call, std::span<std::byte>&) {
          if (call.number >= from) go_on.wait();
          return kReadFile;
        };
  }

 private:
  std::promise<void> promise_;
  std::atomic<bool> ended_ = false;
};

TEST_F(StreamedFaults, AReadThatHangsIsReportedAndFailsTheStep) {
  Hang hang;
  std::vector<std::string> warnings;
  Load(hang.fault(30), {.slots = 8,
                        .slow_read = std::chrono::milliseconds(50),
                        .longest_read = std::chrono::milliseconds(500),
                        .warn = [&](const std::string& text) { warnings.push_back(text); }});
  const Status ran = Forward();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::kIo);
  EXPECT_THAT(ran.error().message, AllOf(HasSubstr("storage_error: "), HasSubstr("offset "),
                                         HasSubstr("a read has not ended for 0.")));
  EXPECT_THAT(warnings, ::testing::ElementsAre(HasSubstr("a read has not ended for 0.")));
  hang.End();
  ExpectRight("after the fault");
}

// The second step does not wait for the read again.
TEST_F(StreamedCompany, OnlySequencesThatNeedAHungReadFail) {
  const std::int64_t block = in_memory_.model().config().num_hidden_layers - 1;
  const std::set<std::int32_t> users = FindUsers(block, kBrokenExpert);
  ASSERT_FALSE(users.empty());
  ASSERT_LT(std::ssize(users), kSequences);
  Hang hang;
  const Fault waits = hang.fault(0);
  LoadBroken(block,
             [&, waits](const ReadCall& call, std::span<std::byte>& to) {
               const bool is_there = call.file == file_ && call.offset == offset_;
               return fails_ && is_there ? waits(call, to) : kReadFile;
             },
             {.slots = 16, .longest_read = std::chrono::milliseconds(300)});
  ExpectOthersGoOn(users, "a read has not ended for 0.");
  const StreamingCounts first = ReadStreamingCounts(*streamed_);
  EXPECT_GE(first.stall_seconds, 0.3);
  EXPECT_GT(first.stall_busy_seconds, 0.15) << "all the time, but for threads that are late";
  EXPECT_LE(first.stall_busy_seconds, first.stall_seconds);
  ExpectOthersGoOn(users, "a read has not ended for 0.");
  EXPECT_LT(ReadStreamingCounts(*streamed_).stall_seconds - first.stall_seconds, 0.3)
      << "the longest read";
  const std::int64_t n_read = ReadStreamingCounts(*streamed_).read_experts;
  hang.End();
  while (ReadStreamingCounts(*streamed_).read_experts == n_read) std::this_thread::yield();
  ExpectAllAgain();
}

TEST_F(StreamedFaults, AHungReadDoesNotKeepTheProcess) {
  auto* const hang = new Hang;  // the read never ends
  Load(hang->fault(10), {.slots = 8,
                         .slow_read = std::chrono::milliseconds(5),
                         .longest_read = std::chrono::milliseconds(10)});
  ASSERT_FALSE(Forward());
  const auto begin = std::chrono::steady_clock::now();
  streamed_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  hang->End();
}

// A model may go while reads are under way.
TEST_F(StreamedFaults, EndsWhileReadsAreUnderWay) {
  for (std::int64_t from = 1; from < 12; from += 5) {
    Load([from](const ReadCall& call, std::span<std::byte>&) {
      if (call.number > from) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return call.number == from ? std::int64_t{0} : kReadFile;
    });
    static_cast<void>(Forward());
    streamed_.reset();
  }
}

}  // namespace
}  // namespace fathom::experts
