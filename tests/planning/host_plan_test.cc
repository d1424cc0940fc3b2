#include "planning/host_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/model_ranks.h"
#include "distributed/weight_shard.h"
#include "json/json_value.h"
#include "model/draft/drafters.h"
#include "model/weight_pieces.h"
#include "planning/host_report.h"
#include "planning/host_shares.h"
#include "tests/testing/shared_data.h"

namespace fathom::planning {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMegabyte = 1'000'000;

// 100 experts of 10 MB, of which a token uses 12; 24 of them, caches and activations are 280 MB.
HostNeeds Needs() {
  return {.activations = 10 * kMegabyte,
          .caches = 30 * kMegabyte,
          .dense = 60 * kMegabyte,
          .head = 40 * kMegabyte,
          .draft = 5 * kMegabyte,
          .expert = 10 * kMegabyte,
          .slot = 10 * kMegabyte,
          .n_experts = 100,
          .n_draft_experts = 10,
          .n_layers = 2,
          .experts_per_token = 6,
          .most_drafts = 1,
          .step_tokens = 8};
}

HostPlan MakePlan(const HostNeeds& needs, std::int64_t megabytes) {
  const Result<HostPlan> plan = PlanHostMemory(needs, megabytes * kMegabyte);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return plan.value_or(HostPlan());
}

TEST(HostPlanTest, GivesOutMemoryInTheOrderOfWhatItSaves) {
  struct Case {
    std::int64_t megabytes;
    std::int64_t resident;
    std::int64_t n_slots;
    bool fits, draft;
  };
  for (const Case& c : {Case{280, 0, 24, false, false}, Case{281, 1, 24, false, false},
                        Case{379, 99, 24, false, false}, Case{380, 100, 24, false, false},
                        Case{389, 100, 24, false, false}, Case{390, 100, 25, false, false},
                        Case{1139, 100, 99, false, false}, Case{1140, 100, 100, true, false},
                        Case{1244, 100, 100, true, false}, Case{1245, 100, 100, true, true}}) {
    SCOPED_TRACE(c.megabytes);
    const HostPlan plan = MakePlan(Needs(), c.megabytes);
    EXPECT_EQ(plan.resident, c.resident * kMegabyte);
    EXPECT_EQ(plan.streamed, (100 - c.resident) * kMegabyte);
    EXPECT_EQ(plan.n_slots, c.n_slots);
    EXPECT_EQ(plan.fits, c.fits);
    EXPECT_EQ(plan.draft_resident, c.draft);
  }
}

TEST(HostPlanTest, ADrafterThatMustDraftComesBeforeFurtherExperts) {
  HostNeeds needs = Needs();
  needs.must_draft = true;
  EXPECT_EQ(MakePlan(needs, 380).streamed, 5 * kMegabyte);
  EXPECT_EQ(MakePlan(needs, 385).streamed, 0);
  EXPECT_TRUE(MakePlan(needs, 385).draft_resident);
  EXPECT_EQ(MakePlan(needs, 394).n_slots, 24);
  EXPECT_EQ(MakePlan(needs, 395).n_slots, 25);
  EXPECT_FALSE(MakePlan(needs, 1244).fits);
  EXPECT_TRUE(MakePlan(needs, 1245).fits);
}

TEST(HostPlanTest, BelowTheLeastPoolSaysWhatIsEnough) {
  EXPECT_TRUE(PlanHostMemory(Needs(), 280 * kMegabyte));
  const Result<HostPlan> plan = PlanHostMemory(Needs(), 280 * kMegabyte - 1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(plan.error().message,
            "memory of the host: expected at least 280.0 MB (0.030 GB caches, 0.010 GB "
            "activations, 0.240 GB for 24 experts), found 279.9 MB; smaller values of "
            "--kv-memory, --context, --max-sequences or --max-batch-tokens need less");
  EXPECT_FALSE(PlanHostMemory(Needs(), 0));
}

TEST(HostPlanTest, CountsSlots) {
  HostNeeds needs = {.n_experts = 11'008, .experts_per_token = 6};
  EXPECT_EQ(needs.LeastSlots(), 24);
  EXPECT_EQ(needs.WantedSlots(), 18);
  needs.most_drafts = 4;
  EXPECT_EQ(needs.WantedSlots(), 42);
  needs.max_sequences = 8;
  EXPECT_EQ(needs.WantedSlots(), 252);
  needs.n_experts = 20;
  EXPECT_EQ(needs.WantedSlots(), 20);
}

TEST(HostPlanTest, StepsInPausesNeedMemoryWhereExpertsAreStreamed) {
  HostNeeds needs = Needs();
  needs.pauses = 5 * kMegabyte;
  EXPECT_EQ(MakePlan(needs, 395).n_slots, 25);
  EXPECT_EQ(MakePlan(needs, 394).n_slots, 24);
  EXPECT_EQ(MakePlan(needs, 394).activations(), 15 * kMegabyte);
  EXPECT_TRUE(MakePlan(needs, 1140).fits);
  EXPECT_EQ(MakePlan(needs, 1140).activations(), 10 * kMegabyte);
  const Result<HostPlan> least = PlanHostMemory(needs, 285 * kMegabyte - 1);
  ASSERT_FALSE(least);
  EXPECT_THAT(least.error().message,
              AllOf(HasSubstr("expected at least 285.0 MB "), HasSubstr("0.015 GB activations")));
}

TEST(HostPlanTest, StepsInPausesHaveRoomForEverySequence) {
  const auto tokens = [](const ModelOptions& sizes) { return PauseTokens(sizes, ModelShard()); };
  EXPECT_EQ(tokens({.max_sequences = 8, .max_batch_tokens = 4096}), 8);
  EXPECT_EQ(tokens({.max_sequences = 8, .max_batch_tokens = 4096, .with_draft = true}), 72);
  EXPECT_EQ(tokens({.max_sequences = 8, .max_batch_tokens = 40, .with_draft = true}), 40);
  EXPECT_EQ(tokens({.max_sequences = 900, .max_batch_tokens = 4096}), 512);
  EXPECT_EQ(PauseTokens({.max_sequences = 8, .max_batch_tokens = 4096}, {.n_stages = 2}), 0);
}

TEST(HostPlanTest, HitRateIsInterpolatedOverTheLogarithmOfTheShare) {
  constexpr double kUseless = .0018;
  EXPECT_DOUBLE_EQ(ExpectedHitRate(.031, kUseless), .36);
  EXPECT_DOUBLE_EQ(ExpectedHitRate(.25, kUseless), .71);
  EXPECT_DOUBLE_EQ(ExpectedHitRate(1, kUseless), 1);
  EXPECT_DOUBLE_EQ(ExpectedHitRate(2, kUseless), 1);
  EXPECT_NEAR(ExpectedHitRate(.17678, kUseless), .645, 1e-4);  // sqrt(.125 * .25)
  EXPECT_EQ(ExpectedHitRate(kUseless, kUseless), 0);
  EXPECT_EQ(ExpectedHitRate(0, kUseless), 0);
  double last = 0;
  for (double share = kUseless; share < 1.1; share *= 1.05) {
    const double hits = ExpectedHitRate(share, kUseless);
    EXPECT_GE(hits, last) << share;
    last = hits;
  }
  // Small models: what a step needs may be a large share.
  EXPECT_EQ(ExpectedHitRate(.02, .3), 0);
  EXPECT_GT(ExpectedHitRate(.35, .3), .7);
}

TEST(HostPlanTest, TimeIsReadingFromDiskAndFromMemoryOfWhichSomeOverlaps) {
  const HostPlan plan = MakePlan(Needs(), 340);  // 60 MB of the dense weights, no more slots
  EXPECT_DOUBLE_EQ(plan.hit_rate, ExpectedHitRate(.24, .24));
  const double read = 40e6 + 120e6 * (1 - plan.hit_rate);
  EXPECT_DOUBLE_EQ(plan.ReadPerToken(), read);
  EXPECT_DOUBLE_EQ(plan.TouchedPerToken(), 220e6);
  const double disk = read / 1e9;
  const double memory = 220e6 / 10e9;
  EXPECT_DOUBLE_EQ(plan.SecondsPerToken({.disk = 1e9, .memory = 10e9}),
                   disk + memory - .3 * memory);
  EXPECT_DOUBLE_EQ(plan.SecondsPerToken({.disk = 100e9, .memory = 1e9}),
                   read / 100e9 + .22 - .3 * (read / 100e9));
  EXPECT_DOUBLE_EQ(plan.ExpertTime({.disk = 1e9, .memory = 10e9}),
                   (1 - plan.hit_rate) * 10 + 1 - .3);  // less is read from memory
  EXPECT_DOUBLE_EQ(plan.ExpertTime({.disk = 100e9, .memory = 10e9}),
                   (1 - plan.hit_rate) / 10 * .7 + 1);
  const HostPlan fits = MakePlan(Needs(), 2000);
  EXPECT_EQ(fits.ExpertTime({.disk = 1e9, .memory = 10e9}), 1);
  EXPECT_EQ(fits.ReadPerToken(), 0);
  EXPECT_DOUBLE_EQ(fits.SecondsPerToken({.disk = 1e9, .memory = 10e9}), .022);
}

TEST(HostPlanTest, IsDescribedInOneLine) {
  EXPECT_EQ(Describe(MakePlan(Needs(), 640), {.disk = 1e9, .memory = 10e9}),
            "0.640 GB of memory: 0.030 GB caches, 0.010 GB activations, 0.100 GB dense weights; 50 "
            "of 100 experts (50.0 %), expected hit rate 0.87, 0.016 GB read per token, 30.4 "
            "tokens/s (disk 1 GB/s, memory 10 GB/s, assumed)");
  EXPECT_THAT(Describe(MakePlan(Needs(), 340)),
              AllOf(HasSubstr("0.060 GB dense weights, 0.040 GB of them do not fit; 24 of 100"),
                    Not(HasSubstr("tokens/s"))));
  EXPECT_EQ(Describe(MakePlan(Needs(), 1200), {.measured = true}),
            "1.200 GB of memory: 0.030 GB caches, 0.010 GB activations, 1.100 GB weights; all of "
            "it fits but for the draft head, at most 182 tokens/s (memory 40 GB/s, measured)");
}

// Ranks of a stage read at the same time; stages follow each other.
TEST(HostPlanTest, RanksAreDescribedTogether) {
  const std::vector<RankSpeed> ranks = {
      {.stage = 0, .read_per_token = 1e9, .seconds_per_token = .3},
      {.stage = 0, .read_per_token = 2e9, .seconds_per_token = .5},
      {.stage = 1, .read_per_token = 3e9, .seconds_per_token = 2}};
  EXPECT_EQ(DescribeRanks(ranks, {.disk = 1e9, .memory = 10e9, .measured = true}),
            "all 3 ranks: 6.000 GB read per token, 0.4 tokens/s (disk 1 GB/s, memory 10 GB/s of a "
            "rank, measured)");
}

// Where other ranks have no room for their experts, a rank with room for all has a pool, too.
TEST(HostPlanTest, ARankStreamsWithTheOthers) {
  const HostPlan plan = PlanHostMemory(Needs(), 2'000 * kMegabyte, /*streams=*/true).value();
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.n_slots, Needs().n_experts);
  EXPECT_EQ(plan.streamed, 0);
  EXPECT_EQ(plan.hit_rate, 1);
}

TEST(HostPlanTest, JsonHasEverything) {
  const JsonValue json = ToJson(MakePlan(Needs(), 640), {.disk = 1e9, .memory = 10e9});
  for (const char* name : {"memory_bytes",
                           "fits",
                           "cache_bytes",
                           "activation_bytes",
                           "step_tokens",
                           "dense_bytes",
                           "dense_resident_bytes",
                           "dense_streamed_bytes",
                           "draft_head_bytes",
                           "draft_head_resident",
                           "expert_bytes",
                           "slot_bytes",
                           "experts",
                           "slots",
                           "hit_rate",
                           "read_bytes_per_token",
                           "disk_bytes_per_s",
                           "memory_bytes_per_s",
                           "speeds_measured",
                           "tokens_per_s"}) {
    EXPECT_NE(json.Find(name), nullptr) << name;
  }
}

// The embedded model: 48 experts of 0.2 MB.
TEST(HostPlanTest, OfACheckpointReadsNoWeights) {
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const Checkpoint checkpoint = Checkpoint::Open(directory).value();
  const ModelConfig config = ReadModelConfig(directory / "config.json").value();
  const auto plan = [&](std::int64_t budget) {
    const LoadPlan load = MakeLoadPlan({}, 8192, MostDrafts({}, checkpoint, config));
    return PlanHost(config, checkpoint, load, 2, budget);
  };
  const HostPlan whole = plan(1000 * kMegabyte).value().front();
  EXPECT_TRUE(whole.fits);
  EXPECT_TRUE(whole.draft_resident);
  EXPECT_EQ(whole.needs.n_experts, 48);
  EXPECT_EQ(whole.needs.n_draft_experts, 8);
  const HostNeeds& needs = whole.needs;
  const std::int64_t embedding = config.vocab_size * config.hidden_size * 2;
  EXPECT_EQ(needs.WeightBytes() + needs.DraftBytes() + embedding, 17'164'792);

  // Ranks divide the experts, the head, and a part of the other weights.
  for (const RankCounts& counts :
       {RankCounts{.n_tensor = 2, .expert_parallel = true}, RankCounts{.n_stages = 2},
        RankCounts{.expert_parallel = true, .n_data = 4}}) {
    std::int64_t n_experts = 0, head = 0, caches = 0;
    const int n_ranks = counts.n_tensor * counts.n_data * counts.n_stages;
    for (int rank = 0; rank < n_ranks; ++rank) {
      const LoadPlan load = MakeLoadPlan({}, 8192, MostDrafts({}, checkpoint, config));
      const HostShare share = {.shard = ShardOfRank(rank, counts, WeighStages(checkpoint, config))};
      const HostNeeds of_rank =
          NeedsFinder(config, checkpoint, {share}, 2, 1000 * kMegabyte).Find(0, load).value();
      ModelConfig adopted = config;
      ModelWeights weights =
          BindWeights(checkpoint, adopted, FindDrafter(checkpoint, adopted)).value();
      ShardWeights(weights, adopted, share.shard);
      std::int64_t dense = 0;
      for (const auto piece : WeightPieces(weights, WalkedWeights::kDense)) {
        dense += std::ssize(piece);
      }
      EXPECT_EQ(of_rank.dense + of_rank.head, dense) << "rank " << rank << " of " << n_ranks;
      EXPECT_EQ(of_rank.RoutedPerToken(),
                needs.RoutedPerToken() * of_rank.n_layers / 6 / share.shard.n_expert);
      n_experts += of_rank.n_experts;
      head += of_rank.head;
      caches += of_rank.caches;
    }
    EXPECT_EQ(n_experts, 48);
    EXPECT_EQ(head, needs.head);
    EXPECT_GT(caches, needs.caches / 2);
  }

  const Result<HostPlans> none = plan(0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("for 8 experts"));
}

TEST(HostPlanTest, RanksTakeTheLongestStepsThatAllHaveMemoryFor) {
  // Two ranks with 2 GB each. The second one has more activations for a token.
  const auto plans_of = [](std::int64_t kilobytes, bool first_fits, bool second_fits) {
    return [=](std::int64_t n) -> Result<HostPlans> {
      HostPlans plans(2, {.budget = 2000 * kMegabyte});
      plans[0].fits = first_fits;
      plans[1].fits = second_fits;
      plans[0].needs = {.activations = n * 1000, .step_tokens = n};
      plans[1].needs = {.activations = n * kilobytes * 1000, .step_tokens = n};
      return plans;
    };
  };
  const auto steps = [](const Result<HostPlans>& plans) {
    return plans ? plans->front().needs.step_tokens : -1;
  };
  constexpr std::int64_t kMany = 1'000'000;
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(12, false, false))), 8192);  // 5 %
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(13, false, false))), 4096);
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(48, false, false))), 4096);  // 10 %
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(49, false, true))), 2048);
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(1, true, true))), 512);
  EXPECT_EQ(steps(PlanLongSteps(512, 700, plans_of(1, true, false))), 700);
  // The other ranks: one of them streams, and has no memory for the longest steps.
  int n_asked = 0;
  const auto ask = [&](bool yes) -> Result<bool> {
    return yes && (++n_asked, n_asked == 1 || n_asked > 3);
  };
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(1, true, true), ask)), 4096);
  EXPECT_EQ(n_asked, 4);
  // One of them cannot be reached, or has no plan at all.
  const auto gone = [](bool) -> Result<bool> { return MakeError(ErrorCode::kUnavailable, "gone"); };
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(1, false, false), gone)), -1);
  const auto has_none = [](bool) -> Result<bool> { return false; };
  EXPECT_EQ(steps(PlanLongSteps(512, kMany, plans_of(1, false, false), has_none)), 512);
}

}  // namespace
}  // namespace fathom::planning
