// Equal bits before, while and after experts migrate between ranks; and failures of the migration.
#include "experts/balance/expert_rebalancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experts/balance/expert_placement_file.h"
#include "experts/expert_parts.h"
#include "tests/distributed/expected_sequence.h"
#include "tests/experts/expert_ranks.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/locks.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using testing::ExpertRanks;
using testing::Sequence;

constexpr std::int64_t kTokens = 150;  // more than a window and a row of ratio 128
constexpr std::int64_t kChunk = 6;

// Less than an expert, and nothing that its pieces are multiples of.
constexpr std::int64_t kBytes = 25'001;

struct Moved {
  std::int64_t n_blocks = 0;
  std::int64_t n_bytes = 0;
  std::int64_t n_between = 0;  // steps with some blocks moved and some not
  std::int64_t n_within = 0;   // steps that began and ended with a part of a block on its way
};

ModelOptions Options(const ModelRanks* ranks) {
  return {.max_sequences = 2,
          .max_context = kTokens,
          .max_batch_tokens = kTokens,
          .max_logit_rows = 32,
          .with_draft = true,
          .parts = ShardedParts(ranks)};
}

// A block that is half moved would have experts that the map does not know, or lack some.
void ExpectWeightsWhereMapsSay(Model& model) {
  const PlacedExperts& experts = PlacedExperts::FindIn(model);
  for (const std::int64_t block : experts.Blocks()) {
    for (std::int32_t e = 0; e < model.config().n_routed_experts; ++e) {
      EXPECT_EQ(experts.Weights(block, e).w1.data != nullptr,
                experts.map(block).IsOn(experts.ranks().shard.expert_rank, e));
    }
  }
}

// All tokens a few at a time, experts on their way beside any step, and when a rebalancing has
// ended the next begins, with loads that have changed.
Sequence RunWhileMoving(Model& model, const std::vector<Token>& tokens, Moved& moved) {
  Sequence sequence(model.config(), 0, tokens);
  // The fewer blocks a stage has, the more each must carry until the tokens end.
  ExpertRebalancer rebalancer(PlacedExperts::FindIn(model),
                              kBytes * PlacedExperts::FindIn(model).ranks().shard.n_stages);
  while (sequence.left() > 0 && !::testing::Test::HasFatalFailure()) {
    testing::Step(model, {{&sequence, std::min(kChunk, sequence.left())}});
    ExpectWeightsWhereMapsSay(model);
    if (!rebalancer.is_running()) {
      const Status started = rebalancer.Start();
      EXPECT_TRUE(started) << started.error().message;
      continue;
    }
    moved.n_within += PlacedExperts::FindIn(model).shipment().is_done() ? 0 : 1;
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
        EXPECT_TRUE(std::ranges::any_of(moved, [](const Moved& m) { return m.n_within > 0; }))
            << what;
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

// The second of two data ranks has no sequence: its blocks carry pieces all the same.
TEST_P(Rebalancing, ADataRankWithoutTokensCarriesItsPieces) {
  for (const int n_stages : {1, 2}) {
    const RankCounts counts = {
        .n_stages = n_stages, .expert_parallel = true, .n_redundant_experts = 2, .n_data = 2};
    const std::string what = std::to_string(n_stages) + " stages of two data ranks";
    std::vector<Moved> moved(static_cast<std::size_t>(2 * n_stages));
    testing::RunRanks(2 * n_stages, [&](Communicator& all) {
      Result<std::unique_ptr<RankGroups>> groups = RankGroups::Join(all, config_, weights_, counts);
      ASSERT_TRUE(groups.has_value()) << groups.error().message;
      testing::TestModel loaded(*directory_, Options(&(*groups)->ranks()), {.n_threads = 1});
      const Sequence found =
          RunWhileMoving(loaded.model(), tokens_, moved[static_cast<std::size_t>(all.rank())]);
      if (all.rank() == 0) {
        testing::ExpectSameBits(*expected_, found, kTokens, what);
      }
    });
    for (const Moved& of_rank : moved) {
      EXPECT_GT(of_rank.n_bytes, 0) << what;
      EXPECT_GT(of_rank.n_within, 0) << what;
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
      ExpertOptions experts;
      change(experts, all.rank());
      ModelOptions options = Options(nullptr);
      options.weights = memory_;
      options.parts = ShardedParts(&ranks.ranks(), experts);
      testing::TestModel loaded(directory_, options, {.n_threads = 1});
      run(loaded.model(), all.rank());
    });
  }

  BlockPlacements MakePlacement(Model& model) {
    Result<BlockPlacements> placements = GatherPlacements(PlacedExperts::FindIn(model));
    EXPECT_TRUE(placements.has_value());
    return *std::move(placements);
  }

  WeightMemory memory_;  // of every rank
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
        const BlockPlacements before = MakePlacement(model);
        testing::Step(model, {{&sequence, 60}});
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model));
        ASSERT_TRUE(rebalancer.Start());
        for (bool finished = false; !finished;) {
          testing::Step(model, {{&sequence, 2}});
          const Result<bool> advanced = rebalancer.Advance();
          ASSERT_TRUE(advanced.has_value());
          finished = *advanced;
        }
        const RebalanceReport& report = rebalancer.report();
        EXPECT_GT(report.n_kept_blocks, 0);
        EXPECT_EQ(report.failure.substr(0, 56),
                  "expert rank 2: moved experts: expected at most 1000 byte");
        const BlockPlacements after = MakePlacement(model);
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

// In a process of its own, which may lock no more when its weights are.
using EmbeddedModelDeathTest = EmbeddedModel;
TEST_F(EmbeddedModelDeathTest, WhereOneRankMayNotLockAllKeepTheOldPlacement) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (!testing::MayLock(64 << 20)) GTEST_SKIP() << testing::kNoLocks;
  memory_.lock = true;
  const auto rebalance = [&](Model& model, int rank) {
    Sequence sequence(model.config(), 0, tokens_);
    testing::Step(model, {{&sequence, 60}});
    Communicator& ranks = *PlacedExperts::FindIn(model).ranks().expert;
    ASSERT_TRUE(ranks.Barrier());
    ASSERT_TRUE(rank != 0 || testing::LimitLocks(65536));
    ASSERT_TRUE(ranks.Barrier());
    const BlockPlacements before = MakePlacement(model);
    ExpertRebalancer rebalancer(PlacedExperts::FindIn(model));
    ASSERT_TRUE(rebalancer.Start());
    while (rebalancer.is_running()) {
      ASSERT_TRUE(rebalancer.Advance());
    }
    EXPECT_GT(rebalancer.report().n_kept_blocks, 0);
    EXPECT_EQ(rebalancer.report().n_moved_blocks, 0);
    EXPECT_EQ(MakePlacement(model), before);
    testing::Step(model, {{&sequence, sequence.left()}});
    testing::ExpectSameBits(*expected_, sequence, kTokens, "rank " + std::to_string(rank));
    if (rank == 0) std::fputs(rebalancer.report().failure.c_str(), stderr);
  };
  const auto run = [&] {
    OnRanks(
        2, [](ExpertOptions&, int) {}, rebalance);
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0),
              "expert rank [01]: cannot lock moved experts in memory .*found 65536 bytes");
}

TEST_F(EmbeddedModel, ARankThatGoesWhileExpertsMoveLeavesTheOldPlacement) {
  OnRanks(
      2, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        testing::Step(model, {{&sequence, 60}});
        const BlockPlacements before = MakePlacement(model);
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model), kBytes);
        ASSERT_TRUE(rebalancer.Start());
        testing::Step(model, {{&sequence, 3}});
        ASSERT_FALSE(PlacedExperts::FindIn(model).shipment().is_done());
        if (rank == 1) {
          return;
        }
        Batch batch;
        batch.Add(0, 63, std::span(tokens_).subspan(63, 3));
        const Status ran = model.Forward(batch);
        ASSERT_FALSE(ran.has_value());
        EXPECT_EQ(ran.error().message, "rank 1 has closed its connection: it has ended");
        EXPECT_FALSE(rebalancer.Finish().has_value());
        EXPECT_EQ(MakePlacement(model), before);
        EXPECT_EQ(rebalancer.report().n_moved_blocks, 0);
      });
}

// Weights travel within steps; between them ranks only agree.
TEST_F(EmbeddedModel, PiecesTravelBesideTheSteps) {
  OnRanks(
      2, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        testing::Step(model, {{&sequence, 60}});
        Communicator& ranks = *PlacedExperts::FindIn(model).ranks().expert;
        std::int64_t n_within = 0, n_between = 0;  // bytes sent
        const auto add_since = [&](std::int64_t& sum, std::int64_t before) {
          sum += ranks.traffic().n_bytes - before;
        };
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model), kBytes);
        ASSERT_TRUE(rebalancer.Start());
        while (rebalancer.is_running()) {
          const std::int64_t begin = ranks.traffic().n_bytes;
          testing::Step(model, {{&sequence, 2}});
          add_since(n_within, begin);
          const std::int64_t end = ranks.traffic().n_bytes;
          ASSERT_TRUE(rebalancer.Advance());
          add_since(n_between, end);
        }
        const RebalanceReport& report = rebalancer.report();
        EXPECT_GE(report.n_moved_blocks, 2);
        EXPECT_GT(report.n_steps, report.n_moved_blocks);
        EXPECT_GT(report.seconds, 0);
        EXPECT_LE(n_between, 500 * report.n_moved_blocks);
        std::array<std::int64_t, 2> sent = {};
        ASSERT_TRUE(ranks.AllGather(std::as_bytes(std::span(&n_within, 1)),
                                    std::as_writable_bytes(std::span(sent))));
        EXPECT_GT(sent[0] + sent[1], report.moved_bytes);
        testing::Step(model, {{&sequence, sequence.left()}});
        testing::ExpectSameBits(*expected_, sequence, kTokens, "rank " + std::to_string(rank));
      });
}

// A run may end between any two steps: what is left moves at once, or nothing waits for it.
TEST_F(EmbeddedModel, TheEndComesWhileABlockIsOnItsWay) {
  for (const bool finishes : {true, false}) {
    OnRanks(
        2, [](ExpertOptions&, int) {},
        [&](Model& model, int rank) {
          Sequence sequence(model.config(), 0, tokens_);
          testing::Step(model, {{&sequence, 60}});
          const BlockPlacements before = MakePlacement(model);
          ExpertRebalancer rebalancer(PlacedExperts::FindIn(model), kBytes);
          ASSERT_TRUE(rebalancer.Start());
          testing::Step(model, {{&sequence, 5}});
          ASSERT_TRUE(rebalancer.Advance());
          ASSERT_FALSE(PlacedExperts::FindIn(model).shipment().is_done());
          if (finishes) {
            ASSERT_TRUE(rebalancer.Finish());
            EXPECT_FALSE(rebalancer.is_running());
            EXPECT_GT(rebalancer.report().n_moved_blocks, 1);
            EXPECT_EQ(rebalancer.report().n_steps, 1);
            ExpectWeightsWhereMapsSay(model);
            testing::Step(model, {{&sequence, sequence.left()}});
            testing::ExpectSameBits(*expected_, sequence, kTokens, "rank " + std::to_string(rank));
          } else {
            EXPECT_EQ(MakePlacement(model), before);
          }
          ASSERT_TRUE(PlacedExperts::FindIn(model).ranks().expert->Barrier());
        });
  }
}

// Steps that were foreseen and did not come leave nothing behind: the last call sends the rest.
TEST_F(EmbeddedModel, WhatNoStepCarriedMovesInTheEnd) {
  OnRanks(
      2, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Sequence sequence(model.config(), 0, tokens_);
        testing::Step(model, {{&sequence, 60}});
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model), kBytes);
        ASSERT_TRUE(rebalancer.Start());
        while (rebalancer.is_running()) {
          ASSERT_TRUE(rebalancer.Advance());
        }
        EXPECT_GT(rebalancer.report().n_moved_blocks, 1);
        EXPECT_TRUE(PlacedExperts::FindIn(model).shipment().is_done());
        testing::Step(model, {{&sequence, sequence.left()}});
        testing::ExpectSameBits(*expected_, sequence, kTokens, "rank " + std::to_string(rank));
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
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model));
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
        ExpertRebalancer rebalancer(PlacedExperts::FindIn(model));
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
        if (rank == 0) saved = PlacementText(MakePlacement(model), owner);
      });
  const Result<BlockPlacements> read = ParsePlacement(saved, "experts.json", owner);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  OnRanks(
      4, [&](ExpertOptions& options, int) { options.placement = *read; },
      [&](Model& model, int rank) {
        EXPECT_EQ(MakePlacement(model), *read);
        EXPECT_NE(MakePlacement(model)[0],
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
        const PlacedExperts& experts = PlacedExperts::FindIn(model);
        const std::int64_t n_places = 12 / 4 * (config_.num_hidden_layers + 2);
        EXPECT_LE(experts.memory().bytes(), n_places * SizeInBytes(experts.Weights(0, 0)));
      });
}

// There the memory that an expert leaves is for those that come, from the first move on: what is
// taken beside the share is what one block needs.
TEST_F(EmbeddedModel, InHugePagesExpertsLeaveTheirMemoryToOthers) {
  memory_ = {.huge_pages = true, .lock = testing::MayLock(64 << 20)};
  OnRanks(
      4, [](ExpertOptions&, int) {},
      [&](Model& model, int rank) {
        Moved moved;
        const Sequence found = RunWhileMoving(model, tokens_, moved);
        EXPECT_GT(moved.n_blocks, 1);
        testing::ExpectSameBits(*expected_, found, kTokens, "rank " + std::to_string(rank));
        const PlacedExperts& experts = PlacedExperts::FindIn(model);
        EXPECT_LE(experts.memory().bytes(), 12 / 4 * SizeInBytes(experts.Weights(0, 0)));
      });
}

}  // namespace
}  // namespace fathom::experts
