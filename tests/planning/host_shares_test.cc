// The plan that ranks make together, and what they hear where one of them cannot.
#include "planning/host_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experts/expert_parts.h"
#include "kernels/registry.h"
#include "model/model.h"
#include "planning/run_plan.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::planning {
namespace {

using ::testing::StartsWith;

constexpr RankCounts kTwo = {.n_tensor = 2, .expert_parallel = true};

class HostSharesTest : public ::testing::Test {
 protected:
  LoadPlan Wanted() const { return MakeLoadPlan({}, 8192, MostDrafts({}, checkpoint_, config_)); }

  const std::filesystem::path directory_ = testing::ProjectPath("models/fairy");
  const ModelConfig config_ = ReadModelConfig(directory_ / "config.json").value();
  const Checkpoint checkpoint_ = Checkpoint::Open(directory_).value();
};

TEST_F(HostSharesTest, EveryRankHearsWhyOneHasNoPlan) {
  std::vector<Error> errors(2);
  testing::RunRanks(2, [&](Communicator& all) {
    const std::unique_ptr<RankGroups> groups =
        RankGroups::Join(all, config_, WeighStages(checkpoint_, config_), kTwo).value();
    const std::unique_ptr<Backend> backend = MakeBackend("cpu", {.n_threads = 1}).value();
    LoadPlan plan = Wanted();
    const RunOptions run = {.n_threads = 1, .memory = all.rank() == 0 ? 40'000'000 : 12'000'000};
    const Result<std::optional<HostPlan>> planned =
        PlanRun(config_, checkpoint_, run, &groups->ranks(), {}, *backend, plan, RuntimeEvents());
    ASSERT_FALSE(planned);
    errors[static_cast<std::size_t>(all.rank())] = planned.error();
    EXPECT_TRUE(all.Barrier()) << "all ranks are still there";
  });
  EXPECT_EQ(errors[1].code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(errors[1].message, StartsWith("memory of the host: expected at least "));
  EXPECT_EQ(errors[0].code, ErrorCode::kUnavailable);
  EXPECT_EQ(errors[0].message, "rank 1: " + errors[1].message);
}

// With little memory the drafter is tried twice and left out, and steps of five lengths are
// planned.
TEST_F(HostSharesTest, BindsTheWeightsOfAShareOnceWithTheDrafterAndOnceWithout) {
  const StageWeights weights = WeighStages(checkpoint_, config_);
  const std::vector<HostShare> shares = {{.shard = ShardOfRank(0, kTwo, weights)},
                                         {.shard = ShardOfRank(1, kTwo, weights)}};
  for (const auto& [megabytes, drafts] : {std::pair(1000, true), std::pair(26, false)}) {
    NeedsFinder finder(config_, checkpoint_, shares, 1, megabytes * 1'000'000);
    LoadPlan plan = Wanted();
    const Result<HostPlans> plans = PlanShares(finder, plan);
    ASSERT_TRUE(plans) << plans.error().message;
    EXPECT_EQ(plan.sizes.with_draft, drafts);
    EXPECT_LE(finder.n_bound(), drafts ? 2 : 4);
    // A finder that has bound nothing yet finds the same.
    NeedsFinder anew(config_, checkpoint_, shares, 1, megabytes * 1'000'000);
    const HostNeeds needs = anew.Find(1, plan).value();
    EXPECT_EQ(plans->back().needs.activations, needs.activations);
    EXPECT_EQ(plans->back().needs.dense, needs.dense);
    EXPECT_EQ(plans->back().needs.slot, needs.slot);
    EXPECT_EQ(plans->back().needs.DraftBytes(), needs.DraftBytes());
  }
}

// Loading allocates for passes that pause what the plan has for them.
TEST_F(HostSharesTest, HasRoomForThePausesOfRanks) {
  testing::RunRanks(2, [&](Communicator& all) {
    const std::unique_ptr<RankGroups> groups =
        RankGroups::Join(all, config_, WeighStages(checkpoint_, config_), kTwo).value();
    const std::unique_ptr<Backend> backend = MakeBackend("cpu", {.n_threads = 1}).value();
    const std::vector<HostShare> shares = {{.shard = groups->ranks().shard}};
    LoadPlan plan = Wanted();
    const HostNeeds needs =
        NeedsFinder(config_, checkpoint_, shares, 1, 40'000'000).Find(0, plan).value();
    EXPECT_GT(needs.pauses, 0);
    plan.sizes.kv_memory_bytes = needs.caches;
    plan.sizes.parts = StreamedParts({.slots = 8, .calibration_seconds = 0.01}, &groups->ranks());
    const auto bytes_with = [&](std::int64_t pause_tokens) {
      plan.sizes.pause_tokens = pause_tokens;
      return Model::Load(directory_, *backend, plan.sizes).value()->workspace_bytes();
    };
    const std::int64_t without = bytes_with(0);
    EXPECT_LE(without, needs.activations);
    EXPECT_NEAR(static_cast<double>(bytes_with(PauseTokens(plan.sizes, shares[0].shard)) - without),
                static_cast<double>(needs.pauses), 64);
  });
}

}  // namespace
}  // namespace fathom::planning
