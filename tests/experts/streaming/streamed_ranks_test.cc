// Experts that several ranks stream from disk, each its share: the bits of one process with all of
// them in memory, and the same failures on all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "model/draft/drafters.h"
#include "tests/distributed/expected_sequence.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using ::testing::AllOf;
using testing::Fault;
using ::testing::HasSubstr;
using testing::kReadFile;
using testing::ReadCall;
using testing::Sequence;

constexpr std::int64_t kRankTokens = 90;

int CountRanks(const RankCounts& counts) {
  return counts.n_tensor * counts.n_data * counts.n_stages;
}

std::string LayoutName(const RankCounts& counts) {
  return fmt::format("{} tensor ranks, {} data ranks, {} stages, experts {}{}", counts.n_tensor,
                     counts.n_data, counts.n_stages,
                     !counts.expert_parallel                     ? "whole"
                     : counts.expert_path == ExpertPath::kGather ? "cut, gathered"
                                                                 : "cut, fused",
                     counts.n_redundant_experts > 0 ? ", some twice" : "");
}

std::vector<RankCounts> Layouts() {
  std::vector<RankCounts> layouts = {
      {.n_tensor = 2},
      {.n_stages = 2},
      {.n_tensor = 2, .n_stages = 2, .expert_parallel = true},
      {.n_tensor = 2, .expert_parallel = true, .n_redundant_experts = 4}};
  for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
    for (const int n : {2, 4}) {
      layouts.push_back({.n_tensor = n, .expert_parallel = true, .expert_path = path});
      layouts.push_back({.expert_parallel = true, .n_data = n, .expert_path = path});
    }
  }
  return layouts;
}

class StreamedRanks : public testing::ExpectedSequence {
 protected:
  void SetUp() override { RunExpected(Sizes(), kRankTokens, 1); }

  static ModelOptions Sizes() {
    return {.max_sequences = 8,
            .max_context = kRankTokens,
            .max_batch_tokens = kRankTokens,
            .max_logit_rows = 32,
            .with_draft = true};
  }

  // Calls run(model, ranks) on every rank of a model whose ranks stream.
  void RunModels(const RankCounts& counts,
                 const std::function<StreamingOptions(const ModelShard&)>& streaming,
                 const std::function<void(Model&, Communicator&)>& run,
                 const ModelOptions& sizes = Sizes()) {
    testing::RunRanks(CountRanks(counts), [&](Communicator& all) {
      Result<std::unique_ptr<RankGroups>> groups = RankGroups::Join(all, config_, weights_, counts);
      ASSERT_TRUE(groups.has_value()) << groups.error().message;
      const ModelRanks& ranks = (*groups)->ranks();
      ModelOptions options = sizes;
      options.parts = StreamedParts(streaming(ranks.shard), &ranks);
      testing::TestModel loaded(*directory_, options, {.n_threads = 1});
      run(loaded.model(), all);
    });
  }

  // This part of the rank's experts, or the fewest.
  StreamingOptions WithShare(const ModelShard& shard, std::int64_t part) const {
    const std::int64_t n_layers = shard.end_layer - shard.first_layer + 1;
    const std::int64_t n = n_layers * config_.n_routed_experts / shard.n_expert;
    return {.slots = std::max(FewestExpertSlots(config_.num_experts_per_tok), n / part),
            .n_read_threads = 4,
            .calibration_seconds = 0.02};
  }
};

// Pools of the fewest experts, of 10 % and of 50 %: all of them with the smallest model, in turns
// with the others.
TEST_P(StreamedRanks, AnyLayoutAndPoolGivesTheSameBits) {
  const bool is_small = *directory_ == testing::kFairy.Directory();
  const std::vector<std::int64_t> parts = {1'000'000, 10, 2};
  std::size_t n_layouts = 0;
  for (const RankCounts& counts : Layouts()) {
    if (!CheckCounts(config_, counts, CountRanks(counts))) continue;
    for (const std::int64_t part : parts) {
      if (!is_small && part != parts[n_layouts % parts.size()]) continue;
      std::atomic<std::int64_t> read_bytes = 0;
      RunModels(
          counts, [&](const ModelShard& shard) { return WithShare(shard, part); },
          [&](Model& model, Communicator& all) {
            const int rank = all.rank();
            // A prompt, a chunk, single tokens, each with the draft head.
            const Sequence found = testing::RunAlone(model, tokens_, {60, 17, 1});
            if (rank == 0) {
              testing::ExpectSameBits(*expected_, found, kRankTokens,
                                      fmt::format("{}, 1/{}", LayoutName(counts), part));
            }
            const StreamingCounts read = StreamedExperts::FindIn(model)->counts();
            EXPECT_GT(read.read_bytes, 0) << LayoutName(counts) << ", rank " << rank;
            EXPECT_EQ(read.read_experts,
                      read.uses() - read.hits() - read.ahead_used + read.ahead_experts);
            EXPECT_EQ(read.tokens, kRankTokens);
          });
    }
    ++n_layouts;
  }
  EXPECT_GE(n_layouts, 3u);
}

INSTANTIATE_TEST_SUITE_P(All, StreamedRanks, testing::AllCheckpoints(), testing::NameOfCase);

// --- Long steps ---

class StreamedRankSteps : public StreamedRanks {};

// A prompt in one step that is longer than steps are by default, and its last 32 rows of logits.
TEST_P(StreamedRankSteps, ALongStepReadsEachExpertOnceOnTheRankThatComputesIt) {
  constexpr std::int64_t kTokens = 700;
  ModelOptions sizes = Sizes();
  sizes.max_sequences = 2;
  sizes.max_context = sizes.max_batch_tokens = kTokens;
  Batch batch;
  batch.Add(0, 0, testing::RandomTokens(config_, kTokens, 3));
  std::vector<std::int32_t> rows(32);
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(kTokens) - 32);
  const auto logits_of = [&](Model& model) {
    const Status ran = model.Forward(batch);
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    const Matrix<const float> logits = model.Logits(rows).value();
    return std::vector<float>(logits.data, logits.data + logits.rows * logits.cols);
  };
  testing::TestModel alone(*directory_, sizes, {.n_threads = 1});
  std::set<std::pair<std::int64_t, std::int32_t>> distinct;
  alone.model().ObserveRouting(
      [&, block = std::int64_t{0}](Matrix<const std::int32_t> ids) mutable {
        for (std::int64_t row = 0; row < ids.rows; ++row) {
          for (const std::int32_t expert : ids.RowSpan(row)) distinct.emplace(block, expert);
        }
        ++block;
      });
  const std::vector<float> expected = logits_of(alone.model());
  for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
    std::atomic<std::int64_t> n_read = 0, n_bytes = 0;
    std::atomic<std::int64_t> expert_bytes = 0;
    RunModels(
        {.n_tensor = 2, .expert_parallel = true, .expert_path = path},
        [&](const ModelShard& shard) { return WithShare(shard, 1'000'000); },
        [&](Model& model, Communicator& all) {
          const std::vector<float> found = logits_of(model);
          if (all.rank() == 0) {
            ASSERT_EQ(found.size(), expected.size());
            EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
          }
          const StreamingCounts counts = StreamedExperts::FindIn(model)->counts();
          n_read += counts.read_experts;
          n_bytes += counts.read_bytes;
          expert_bytes = counts.slot_bytes;
        },
        sizes);
    EXPECT_EQ(n_read, std::ssize(distinct));
    EXPECT_GT(n_bytes, 0);
    EXPECT_LE(n_bytes, std::ssize(distinct) * expert_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Fairy, StreamedRankSteps, ::testing::Values(testing::kFairy),
                         testing::NameOfCase);

// --- Faults ---

// Eight sequences of one token each, of which some need an expert that one rank cannot read.
class StreamedRankFaults : public StreamedRanks {
 protected:
  static constexpr std::int32_t kSequences = 8;
  static constexpr std::int32_t kBrokenExpert = 5;

  void SetUp() override {
    StreamedRanks::SetUp();
    alone_ = std::make_unique<testing::TestModel>(*directory_, Sizes());
  }

  Token ChooseToken(std::int32_t sequence, std::int32_t position) const {
    return tokens_[static_cast<std::size_t>(sequence * 10 + position)];
  }
  Batch All(std::int32_t position, std::int32_t first = 0, std::int32_t end = kSequences) const {
    Batch batch;
    for (std::int32_t slot = first; slot < end; ++slot) {
      batch.Add(slot, position, std::vector<Token>{ChooseToken(slot, position)});
    }
    return batch;
  }
  std::set<std::int32_t> FindUsers(std::int64_t block) {
    std::set<std::int32_t> users;
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      std::int64_t next = 0;
      alone_->model().ObserveRouting([&](Matrix<const std::int32_t> ids) {
        const auto chosen = ids.RowSpan(0);
        if (next++ == block && std::ranges::find(chosen, kBrokenExpert) != chosen.end()) {
          users.insert(slot);
        }
      });
      EXPECT_TRUE(alone_->model().Forward(All(0, slot, slot + 1)));
    }
    alone_->model().ObserveRouting({});
    return users;
  }
  static std::vector<float> ComputeLogits(Model& model, int n_rows) {
    std::vector<std::int32_t> rows;
    for (std::int32_t row = 0; row < n_rows; ++row) rows.push_back(row);
    const auto logits = model.Logits(rows);
    EXPECT_TRUE(logits);
    if (!logits) return {};
    return {logits->data, logits->data + logits->rows * logits->cols};
  }
  // Logits of n_steps tokens of all sequences, without a fault.
  std::vector<float> ExpectedAfter(std::int32_t n_steps) {
    for (std::int32_t position = 0; position < n_steps; ++position) {
      EXPECT_TRUE(alone_->model().Forward(All(position)));
    }
    return ComputeLogits(alone_->model(), kSequences);
  }
  // For models whose reads of one expert fail as soon as all ranks have called Break.
  StreamingOptions Breaking(const ModelShard& shard) {
    StreamingOptions options = WithShare(shard, 1'000'000);
    options.open = testing::OpenFaulty([this](const ReadCall& call, std::span<std::byte>&) {
      const bool is_there = call.file == file_ && call.offset == offset_;
      return fails_ && is_there ? -EIO : kReadFile;
    });
    return options;
  }
  void Break(Model& model, Communicator& all, std::int64_t block) {
    const auto key = static_cast<std::size_t>(block * config_.n_routed_experts + kBrokenExpert);
    const auto ranges = StreamedExperts::FindIn(model)->files().Ranges(key);
    if (!ranges.empty()) {  // the same on every rank that has the expert
      file_ = ranges.front().file;
      offset_ = ranges.front().offset;
    }
    SetFails(all, true);
  }
  // Between two steps of all ranks.
  void SetFails(Communicator& all, bool fails) {
    ASSERT_TRUE(all.Barrier());
    fails_ = fails;
    ASSERT_TRUE(all.Barrier());
  }

  std::unique_ptr<testing::TestModel> alone_;
  std::atomic<std::size_t> file_ = 0;
  std::atomic<std::int64_t> offset_ = -1;
  std::atomic<bool> fails_ = false;
};

TEST_P(StreamedRankFaults, OnlySequencesThatNeedTheBrokenExpertFailOnAllRanks) {
  const std::vector<float> one = ExpectedAfter(1);
  const std::vector<float> two = ExpectedAfter(2);
  const auto n_vocab = static_cast<std::ptrdiff_t>(one.size()) / kSequences;
  int n_isolated = 0;
  for (const RankCounts& counts : Layouts()) {
    if (!counts.expert_parallel || counts.n_stages > 1 ||
        !CheckCounts(config_, counts, CountRanks(counts))) {
      continue;
    }
    for (std::int64_t block = 0; block < config_.num_hidden_layers; ++block) {
      const std::set<std::int32_t> users = FindUsers(block);
      if (users.empty() || std::ssize(users) == kSequences) continue;
      ++n_isolated;
      fails_ = false;
      const std::string what = fmt::format("{}, block {}", LayoutName(counts), block);
      RunModels(
          counts, [&](const ModelShard& shard) { return Breaking(shard); },
          [&](Model& model, Communicator& all) {
            const int rank = all.rank();
            Break(model, all, block);
            std::vector<SequenceFailure> failed;
            const Status ran = model.Forward(All(0), failed);
            ASSERT_TRUE(ran) << what << ": " << ran.error().message;
            std::set<std::int32_t> found;
            for (const SequenceFailure& failure : failed) {
              found.insert(failure.sequence);
              EXPECT_EQ(failure.error.code, ErrorCode::kIo);
              EXPECT_THAT(failure.error.message,
                          AllOf(HasSubstr("storage_error: "), HasSubstr(".safetensors, offset "),
                                HasSubstr("errno 5")));
            }
            EXPECT_EQ(found, users) << what << ", rank " << rank;
            const std::vector<float> logits = ComputeLogits(model, kSequences);
            for (std::int32_t slot = 0; rank == 0 && slot < kSequences; ++slot) {
              const auto first = slot * n_vocab;
              EXPECT_TRUE(users.contains(slot) ||
                          std::equal(one.begin() + first, one.begin() + first + n_vocab,
                                     logits.begin() + first))
                  << what << ", sequence " << slot;
            }
            ASSERT_TRUE(model.Forward(All(0, *found.begin(), *found.begin() + 1), failed));
            EXPECT_EQ(failed.size(), 1u) << what << ": all sequences of a step have failed";
            SetFails(all, false);
            for (const std::int32_t position : {0, 1}) {
              ASSERT_TRUE(model.Forward(All(position), failed));
              EXPECT_EQ(failed.size(), 0u) << what;
            }
            const std::vector<float> after = ComputeLogits(model, kSequences);
            EXPECT_TRUE(rank != 0 || after == two) << what << ", after the fault";
          });
    }
  }
  EXPECT_GE(n_isolated, 2);
}

// Where ranks cannot go on with the other sequences, the rank that cannot read says why.
TEST_P(StreamedRankFaults, InStagesTheStepFails) {
  std::int64_t block = config_.num_hidden_layers - 1;
  while (FindUsers(block).empty()) --block;
  for (const RankCounts& counts :
       {RankCounts{.n_stages = 2}, RankCounts{.n_tensor = 2},
        RankCounts{.n_tensor = 2, .n_stages = 2, .expert_parallel = true}}) {
    if (!CheckCounts(config_, counts, CountRanks(counts))) continue;
    std::atomic<int> n_named = 0;
    fails_ = false;
    RunModels(
        counts, [&](const ModelShard& shard) { return Breaking(shard); },
        [&](Model& model, Communicator& all) {
          Break(model, all, block);
          std::vector<SequenceFailure> failed;
          const Status ran = model.Forward(All(0), failed);
          EXPECT_TRUE(failed.empty());
          if (!ran && ran.error().message.starts_with("storage_error: ")) ++n_named;
        });
    EXPECT_GE(n_named, 1) << LayoutName(counts);
  }
}

INSTANTIATE_TEST_SUITE_P(Fairy, StreamedRankFaults, ::testing::Values(testing::kFairy),
                         testing::NameOfCase);

}  // namespace
}  // namespace fathom::experts
