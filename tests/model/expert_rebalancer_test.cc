// The same bits before, while and after experts move between ranks; and what happens when they
// cannot.
#include "model/expert_rebalancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/expert_placement_file.h"
#include "model/rebalance_schedule.h"
#include "tests/model/expected_sequence.h"
#include "tests/model/expert_ranks.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using testing::ExpertRanks;
using testing::Sequence;

constexpr std::int64_t kTokens = 150;  // more than a window and a row of ratio 128
constexpr std::int64_t kChunk = 6;

struct Moved {
  std::int64_t n_blocks = 0;
  std::int64_t n_bytes = 0;
  std::int64_t n_between = 0;  // steps with some blocks moved and some not
};

ModelOptions Options(const ModelRanks* ranks) {
  return {.max_sequences = 2,
          .max_context = kTokens,
          .max_batch_tokens = kTokens,
          .max_logit_rows = 32,
          .with_mtp = true,
          .ranks = ranks};
}

// All tokens a few at a time, a turn of the rebalancer between any two steps, and when it has ended
// the next begins, with loads that have changed.
Sequence RunWhileMoving(Model& model, const std::vector<Token>& tokens, Moved& moved) {
  Sequence sequence(model.config(), 0, tokens);
  ExpertRebalancer rebalancer(model.experts(), 1);
  while (sequence.left() > 0 && !::testing::Test::HasFatalFailure()) {
    testing::Step(model, {{&sequence, std::min(kChunk, sequence.left())}});
    if (!rebalancer.is_running()) {
      const Status started = rebalancer.Start();
      EXPECT_TRUE(started) << started.error().message;
      continue;
    }
    const Result<bool> advanced = rebalancer.Advance();
    EXPECT_TRUE(advanced) << advanced.error().message;
    moved.n_between += rebalancer.report().n_moved_blocks > 0 && !*advanced ? 1 : 0;
    if (*advanced) {
      const RebalanceReport& report = rebalancer.report();
      EXPECT_EQ(report.failure, "");
      EXPECT_LE(report.imbalance_after, report.imbalance_before);
      moved.n_blocks += report.n_moved_blocks;
      moved.n_bytes += report.moved_bytes;
    }
  }
  return sequence;
}

class Rebalancing : public testing::ExpectedSequence {
 protected:
  void SetUp() override { RunExpected(Options(nullptr), kTokens, 7); }
};

TEST_P(Rebalancing, StagesOfTensorRanksGiveTheSameBitsWhileExpertsMove) {
  int n_cuts = 0;
  for (const int n_tensor : {2, 4}) {
    for (const int n_stages : {1, 2, 4}) {
      for (const std::int64_t n_redundant : {0, 2, 6}) {
        const RankCounts counts = {n_tensor, n_stages, true, n_redundant};
        const int n_ranks = n_tensor * n_stages;
        if (n_ranks > 8 || !CheckCounts(config_, counts, n_ranks)) {
          continue;
        }
        const std::string what = std::to_string(n_tensor) + " tensor ranks, " +
                                 std::to_string(n_stages) + " stages, " +
                                 std::to_string(n_redundant) + " redundant experts";
        std::vector<Moved> moved(static_cast<std::size_t>(n_ranks));
        testing::RunRanks(n_ranks, [&](Communicator& all) {
          Result<std::unique_ptr<RankGroups>> groups =
              RankGroups::Join(all, config_, weights_, counts);
          ASSERT_TRUE(groups.has_value()) << groups.error().message;
          testing::TestModel loaded(*directory_, Options(&(*groups)->ranks()), {.n_threads = 1});
          const Sequence found =
              RunWhileMoving(loaded.model(), tokens_, moved[static_cast<std::size_t>(all.rank())]);
          if (all.rank() == 0) {
            testing::ExpectSameBits(*expected_, found, kTokens, what);
          }
        });
        for (const Moved& of_rank : moved) {
          EXPECT_GT(of_rank.n_blocks, 0) << what;
          EXPECT_GT(of_rank.n_bytes, 0) << what;
        }
        EXPECT_GT(moved[0].n_between, 0) << what;
        ++n_cuts;
      }
    }
  }
  EXPECT_GE(n_cuts, 5);
}

TEST_P(Rebalancing, AnyNumberOfExpertRanksGivesTheSameBitsWhileExpertsMove) {
  for (const int n_ranks : {2, 4, 8}) {
    for (const std::int64_t n_least : {1, 5}) {
      // The next number that can be cut so.
      const std::int64_t n_redundant =
          (config_.n_routed_experts + n_least + n_ranks - 1) / n_ranks * n_ranks -
          config_.n_routed_experts;
      const std::string what = std::to_string(n_ranks) + " expert ranks, " +
                               std::to_string(n_redundant) + " redundant experts";
      std::vector<Moved> moved(static_cast<std::size_t>(n_ranks));
      testing::RunRanks(n_ranks, [&](Communicator& all) {
        const ExpertRanks ranks(config_, all, n_redundant);
        testing::TestModel loaded(*directory_, Options(&ranks.ranks()), {.n_threads = 1});
        const Sequence found =
            RunWhileMoving(loaded.model(), tokens_, moved[static_cast<std::size_t>(all.rank())]);
        testing::ExpectSameBits(*expected_, found, kTokens,
                                what + ", rank " + std::to_string(all.rank()));
      });
      EXPECT_GT(moved[0].n_blocks, 0) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Rebalancing, testing::AllCheckpoints(), testing::NameOfCase);

// --- What can go wrong ---

class EmbeddedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::TestModel alone(directory_, Options(nullptr), {.n_threads = 1});
    config_ = alone.model().config();
    tokens_ = testing::RandomTokens(config_, kTokens, 7);
    expected_.emplace(testing::RunAlone(alone.model(), tokens_, {kTokens}));
  }

  // `run` on n_ranks expert ranks with 4 redundant experts.
  void OnRanks(int n_ranks, const std::function<void(ExpertOptions&, int rank)>& change,
               const std::function<void(Model&, int rank)>& run) {
    testing::RunRanks(n_ranks, [&](Communicator& all) {
      const ExpertRanks ranks(config_, all, 4);
      ModelOptions options = Options(&ranks.ranks());
      change(options.experts, all.rank());
      testing::TestModel loaded(directory_, options, {.n_threads = 1});
      run(loaded.model(), all.rank());
    });
  }

  BlockPlacements PlacementOf(Model& model) {
    Result<BlockPlacements> placements = GatherPlacements(model.experts());
    EXPECT_TRUE(placements.has_value());
    return *std::move(placements);
  }

  const std::filesystem::path directory_ = testing::ProjectPath("models/fairy");
  ModelConfig config_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;
};

TEST_F(EmbeddedModel, WhereOneRankHasNoMemoryAllKeepTheOldPlacement) {
  std::array<BlockPlacements, 4> placements;
  OnRanks(
      4, [](ExpertOptions& options, int rank) { options.max_moved_bytes = rank == 2 ? 1000 : 0; },
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        const BlockPlacements before = PlacementOf(model);
        testing::Step(model, {{&sequence, 60}});
        ExpertRebalancer rebalancer(model.experts());
        ASSERT_TRUE(rebalancer.Start());
        while (rebalancer.is_running()) {
          ASSERT_TRUE(rebalancer.Advance());
        }
        const RebalanceReport& report = rebalancer.report();
        EXPECT_GT(report.n_kept_blocks, 0);
        EXPECT_EQ(report.failure.substr(0, 56),
                  "expert rank 2: moved experts: expected at most 1000 byte");
        const BlockPlacements after = PlacementOf(model);
        std::int64_t n_same = 0;
        for (std::size_t block = 0; block < after.size(); ++block) {
          n_same += before[block] == after[block] ? 1 : 0;
        }
        EXPECT_EQ(n_same + report.n_moved_blocks, std::ssize(after));
        testing::Step(model, {{&sequence, sequence.left()}});
        testing::ExpectSameBits(*expected_, sequence, kTokens, "rank " + std::to_string(rank));
        placements[static_cast<std::size_t>(rank)] = after;
      });
  for (const BlockPlacements& of_rank : placements) {
    EXPECT_EQ(of_rank, placements[0]);
  }
}

TEST_F(EmbeddedModel, ARankThatGoesWhileExpertsMoveLeavesTheOldPlacement) {
  OnRanks(
      2, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        testing::Step(model, {{&sequence, 60}});
        const BlockPlacements before = PlacementOf(model);
        ExpertRebalancer rebalancer(model.experts(), 1);
        ASSERT_TRUE(rebalancer.Start());
        ASSERT_TRUE(rebalancer.is_running());
        if (rank == 1) {
          return;
        }
        const Result<bool> advanced = rebalancer.Advance();
        ASSERT_FALSE(advanced.has_value());
        EXPECT_EQ(PlacementOf(model), before);
        EXPECT_EQ(rebalancer.report().n_moved_blocks, 0);
      });
}

TEST_F(EmbeddedModel, RanksWithDifferentMapsAreFoundBeforeAnythingMoves) {
  BlockPlacements other(static_cast<std::size_t>(config_.num_hidden_layers) + 1,
                        {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3});
  other[3] = {0, 1, 2, 3, 4, 5, 6, 7, 3, 2, 1, 0};
  OnRanks(
      2,
      [&](ExpertOptions& options, int rank) {
        if (rank == 1) options.placement = other;
      },
      [&](Model& model, int) {
        ExpertRebalancer rebalancer(model.experts());
        const Status started = rebalancer.Start();
        ASSERT_FALSE(started.has_value());
        EXPECT_EQ(started.error().message,
                  "expert rank 1: expected the placement of experts of expert rank 0, found "
                  "another");
        EXPECT_FALSE(rebalancer.is_running());
      });
}

TEST_F(EmbeddedModel, ASavedPlacementIsWhereTheNextRunBegins) {
  const PlacementOwner owner = {
      "0123", config_.num_hidden_layers + 1, {.n_logical = 8, .n_physical = 12, .n_ranks = 4}};
  std::string saved;
  OnRanks(
      4, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        testing::Step(model, {{&sequence, 60}});
        int n_ended = 0;
        ExpertRebalancer rebalancer(model.experts());
        RebalanceSchedule schedule(rebalancer, 120, [&](const RebalanceReport& report) {
          ++n_ended;
          EXPECT_GT(report.n_moved_blocks, 0);
        });
        ASSERT_TRUE(schedule.AfterStep(29));
        EXPECT_FALSE(rebalancer.is_running());  // at a quarter, the first time
        ASSERT_TRUE(schedule.AfterStep(1));
        EXPECT_TRUE(rebalancer.is_running());
        ASSERT_TRUE(schedule.AfterStep(0));
        ASSERT_TRUE(schedule.Finish());
        EXPECT_EQ(n_ended, 1);
        ASSERT_TRUE(schedule.AfterStep(119));
        EXPECT_EQ(n_ended, 1);
        if (rank == 0) saved = PlacementText(PlacementOf(model), owner);
      });
  const Result<BlockPlacements> read = ParsePlacement(saved, "experts.json", owner);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  OnRanks(
      4, [&](ExpertOptions& options, int) { options.placement = *read; },
      [&](Model& model, int rank) {
        EXPECT_EQ(PlacementOf(model), *read);
        EXPECT_NE(PlacementOf(model)[0],
                  (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
        const Sequence found = testing::RunAlone(model, tokens_, {100, 47, 1});
        testing::ExpectSameBits(*expected_, found, kTokens, "rank " + std::to_string(rank));
      });
}

// Experts leave their memory to those that come: a rank never has more than its places and what one
// block needs beside them.
TEST_F(EmbeddedModel, ARankKeepsItsShareOfTheWeights) {
  OnRanks(
      4, [](ExpertOptions&, int) {},
      [&](Model& model, int) {
        Moved moved;
        RunWhileMoving(model, tokens_, moved);
        EXPECT_GT(moved.n_blocks, 0);
        const PlacedExperts& experts = model.experts();
        for (const std::int64_t block : experts.Blocks()) {
          for (std::int32_t e = 0; e < config_.n_routed_experts; ++e) {
            const bool is_here = experts.Weights(block, e).w1.data != nullptr;
            EXPECT_EQ(is_here, experts.map(block).IsOn(experts.ranks().share.expert_rank, e));
          }
        }
        const std::int64_t n_places = 12 / 4 * (config_.num_hidden_layers + 2);
        EXPECT_LE(experts.memory().bytes(), n_places * BytesOf(experts.Weights(0, 0)));
      });
}

}  // namespace
}  // namespace fathom
