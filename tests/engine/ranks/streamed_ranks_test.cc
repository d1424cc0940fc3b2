// An expert that one rank cannot read: the first rank learns which sequences have failed, and the
// ranks go on together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "experts/streaming/expert_files.h"
#include "model/weights.h"
#include "tests/engine/ranks/ranks_model.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

constexpr std::int32_t kSequences = 8;

Batch TokenOfEach(std::int32_t position, std::int32_t first = 0, std::int32_t end = kSequences) {
  Batch batch;
  for (std::int32_t slot = first; slot < end; ++slot) {
    batch.Add(slot, position, std::vector<Token>{static_cast<Token>(slot * 377 + position * 91)});
  }
  return batch;
}

class StreamedLeader : public ::testing::TestWithParam<RankCounts> {
 protected:
  static ModelOptions Sizes() {
    return {.max_sequences = kSequences,
            .max_context = 64,
            .max_batch_tokens = 16,
            .max_logit_rows = kSequences};
  }
  // The place in the files of an expert.
  FileRange FindRange(std::int64_t block, std::int32_t expert) const {
    const Checkpoint checkpoint = Checkpoint::Open(directory_).value();
    const ModelConfig config = ReadModelConfig(directory_ / "config.json").value();
    const ModelWeights weights = BindWeights(checkpoint, config, nullptr).value();
    std::vector<std::span<const ExpertWeights>> blocks;
    for (const BlockWeights& one : weights.layers) blocks.emplace_back(one.ffn.experts);
    const ExpertFiles files = ExpertFiles::Create(checkpoint, blocks).value();
    return files.Ranges(static_cast<std::size_t>(block * config.n_routed_experts + expert)).front();
  }
  // Sequences whose first token uses the expert, by a model in one process.
  std::set<std::int32_t> FindUsers(std::int64_t block, std::int32_t expert) {
    std::set<std::int32_t> users;
    std::int64_t next = 0;
    alone_.model().ObserveRouting([&](Matrix<const std::int32_t> ids) {
      for (std::int32_t row = 0; next == block && row < ids.rows; ++row) {
        if (std::ranges::find(ids.RowSpan(row), expert) != ids.RowSpan(row).end()) {
          users.insert(row);
        }
      }
      ++next;
    });
    EXPECT_TRUE(alone_.model().Forward(TokenOfEach(0)));
    alone_.model().ObserveRouting({});
    return users;
  }
  std::vector<float> ExpectedLogits(std::int32_t slot, std::int32_t n_tokens) {
    for (std::int32_t position = 0; position < n_tokens; ++position) {
      EXPECT_TRUE(alone_.model().Forward(TokenOfEach(position, slot, slot + 1)));
    }
    const std::vector<std::int32_t> rows = {0};
    const Matrix<const float> logits = alone_.model().Logits(rows).value();
    return {logits.data, logits.data + logits.cols};
  }
  static std::vector<float> ComputeLogits(LanguageModel& model, std::int32_t row) {
    const std::vector<std::int32_t> rows = {row};
    EXPECT_TRUE(model.StartTokens(rows, {}, 0));
    const Result<ChosenTokens> found = model.FinishTokens(0);
    EXPECT_TRUE(found);
    return found ? std::vector<float>(found->logits.data, found->logits.data + found->logits.cols)
                 : std::vector<float>();
  }

  const std::filesystem::path directory_ = ProjectPath("models/fairy");
  TestModel alone_{directory_, Sizes(), {.n_threads = 1}};
};

// A disk that cannot read one range while `fails`; both outlive it.
auto OpenBroken(const FileRange& broken, const std::atomic<bool>& fails) {
  return OpenFaulty([&](const ReadCall& call, std::span<std::byte>&) {
    const bool is_there = call.file == broken.file && call.offset == broken.offset;
    return fails && is_there ? -EIO : kReadFile;
  });
}

TEST_P(StreamedLeader, LearnsWhichSequencesHaveFailed) {
  std::set<std::int32_t> users;
  std::int64_t block = 6;
  std::int32_t expert = 0;
  while (users.empty() || std::ssize(users) == kSequences) {
    ASSERT_GE(--block, 0);
    for (expert = 7; expert >= 0; --expert) {
      users = FindUsers(block, expert);
      if (!users.empty() && std::ssize(users) < kSequences) break;
    }
  }
  const FileRange broken = FindRange(block, expert);
  std::atomic<bool> fails = true;
  RanksModel model(directory_, GetParam(), Sizes(), /*small_memory=*/false, TestMemory::kHost,
                   {.slots = 8, .n_read_threads = 4, .open = OpenBroken(broken, fails)});
  for (int i = 0; i < 2; ++i) {
    std::vector<SequenceFailure> failed;
    const Status ran = model.Forward(TokenOfEach(0), failed);
    ASSERT_TRUE(ran) << ran.error().message;
    std::set<std::int32_t> found;
    for (const SequenceFailure& failure : failed) {
      found.insert(failure.sequence);
      EXPECT_THAT(failure.error.message, ::testing::HasSubstr("storage_error: "));
    }
    EXPECT_EQ(found, users);
    for (std::int32_t slot = 0; slot < kSequences; ++slot) {
      if (users.contains(slot)) continue;
      EXPECT_EQ(ComputeLogits(model, slot), ExpectedLogits(slot, 1)) << "sequence " << slot;
    }
  }
  // Whichever rank has the expert.
  const StreamingCounts counts = model.Streaming().value();
  EXPECT_EQ(counts.failed_reads, 2);
  EXPECT_EQ(counts.slots, 8 * GetParam().n_tensor * GetParam().n_data);
  EXPECT_FALSE(counts.DiskFails(std::chrono::steady_clock::now()));
  // All sequences of a step.
  const std::int32_t user = *users.begin();
  std::vector<SequenceFailure> failed;
  ASSERT_TRUE(model.Forward(TokenOfEach(0, user, user + 1), failed));
  EXPECT_EQ(failed.size(), 1u);
  EXPECT_TRUE(model.Streaming().value().DiskFails(std::chrono::steady_clock::now()));
  fails = false;
  for (const std::int32_t position : {0, 1}) {
    ASSERT_TRUE(model.Forward(TokenOfEach(position), failed));
    EXPECT_EQ(failed.size(), 0u);
  }
  for (std::int32_t slot = 0; slot < kSequences; ++slot) {
    EXPECT_EQ(ComputeLogits(model, slot), ExpectedLogits(slot, 2)) << "sequence " << slot;
  }
}

// The first half of the sequences in a pass in pieces, the others between its layers.
TEST_P(StreamedLeader, FailuresOfAPassAndOfItsPausesStayApart) {
  constexpr std::int32_t kHalf = kSequences / 2;
  const auto in_half = [](const std::set<std::int32_t>& users, bool first) {
    std::set<std::int32_t> some;
    for (const std::int32_t user : users) {
      if ((user < kHalf) == first) some.insert(user);
    }
    return some;
  };
  const auto divides = [](const std::set<std::int32_t>& users) {
    return !users.empty() && std::ssize(users) < kHalf;
  };
  std::set<std::int32_t> of_pass, of_pauses;
  std::int64_t block = 5;  // layers of the pass follow, and pauses
  std::int32_t expert = 0;
  while (!divides(of_pass) || !divides(of_pauses)) {
    ASSERT_GE(--block, 0);
    for (expert = 7; expert >= 0; --expert) {
      const std::set<std::int32_t> users = FindUsers(block, expert);
      of_pass = in_half(users, true);
      of_pauses = in_half(users, false);
      if (divides(of_pass) && divides(of_pauses)) break;
    }
  }
  const FileRange broken = FindRange(block, expert);
  std::atomic<bool> fails = true;
  ModelOptions sizes = Sizes();
  sizes.pause_tokens = kHalf;
  RanksModel model(directory_, GetParam(), sizes, /*small_memory=*/false, TestMemory::kHost,
                   {.slots = 8, .n_read_threads = 4, .open = OpenBroken(broken, fails)});
  const Batch prompt = TokenOfEach(0, 0, kHalf);
  std::vector<SequenceFailure> failed;
  const auto found = [&failed] {
    std::set<std::int32_t> sequences;
    for (const SequenceFailure& failure : failed) sequences.insert(failure.sequence);
    return sequences;
  };
  Result<std::unique_ptr<LayeredPass>> pass = model.BeginPass(prompt, {});
  ASSERT_TRUE(pass);
  for (std::int64_t layer = 0;; ++layer) {
    fails = layer <= block;
    ASSERT_TRUE(model.Forward(TokenOfEach(0, kHalf), failed));
    EXPECT_EQ(found(), fails ? of_pauses : std::set<std::int32_t>());
    for (std::int32_t slot = kHalf; slot < kSequences; ++slot) {
      if (found().contains(slot)) continue;
      EXPECT_EQ(ComputeLogits(model, slot - kHalf), ExpectedLogits(slot, 1)) << "sequence " << slot;
    }
    const Result<PassProgress> progress = (*pass)->Continue(failed);
    ASSERT_TRUE(progress) << progress.error().message;
    if (progress->HasEnded()) break;
  }
  EXPECT_EQ(found(), of_pass);
  for (std::int32_t slot = 0; slot < kHalf; ++slot) {
    if (of_pass.contains(slot)) continue;
    EXPECT_EQ(ComputeLogits(model, slot), ExpectedLogits(slot, 1)) << "sequence " << slot;
  }
  // A pass that stops halfway: its blocks go to others.
  fails = false;
  pass = model.BeginPass(prompt, {});
  ASSERT_TRUE(pass);
  ASSERT_TRUE((*pass)->Continue(failed));
  pass->reset();
  for (const std::int32_t slot : {3, 1, 0, 2}) {
    ASSERT_TRUE(model.Forward(TokenOfEach(0, slot, slot + 1), failed));
    EXPECT_TRUE(failed.empty());
    EXPECT_EQ(ComputeLogits(model, 0), ExpectedLogits(slot, 1)) << "sequence " << slot;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, StreamedLeader,
                         ::testing::Values(RankCounts{.n_tensor = 2, .expert_parallel = true},
                                           RankCounts{.expert_parallel = true, .n_data = 2},
                                           RankCounts{.expert_parallel = true,
                                                      .n_data = 4,
                                                      .expert_path = ExpertPath::kGather}));

}  // namespace
}  // namespace fathom::testing
