#include "distributed/model_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/shared_data.h"

namespace fathom::distributed {
namespace {

ModelConfig Fairy() {
  Result<ModelConfig> config = ReadModelConfig(testing::ProjectPath("models/fairy/config.json"));
  return *std::move(config);
}

std::string Refusal(const ModelConfig& config, const RankCounts& counts, int n_ranks) {
  const Status status = CheckCounts(config, counts, n_ranks);
  return status ? "" : status.error().message;
}

TEST(ModelRanksTest, TheErrorNamesTheOptionAndWhatItHasToDivide) {
  const ModelConfig config = Fairy();  // 4 heads in 2 groups, 8 experts, 6 layers
  EXPECT_EQ(Refusal(config, {2, 3, true}, 6), "");
  EXPECT_EQ(Refusal(config, {3, 1, false}, 3),
            "--tp: expected a number that divides 4 (query heads), found 3");
  EXPECT_EQ(Refusal(config, {4, 1, false}, 4),
            "--tp: expected a number that divides 2 (output groups), found 4");
  EXPECT_EQ(Refusal(config, {2, 2, false}, 2),
            "--tp times --pp: expected the number of ranks, 2, found 2 times 2");
  EXPECT_EQ(Refusal(config, {1, 7, false}, 7), "--pp: expected at most 6 (layers), found 7");
  ModelConfig odd = config;
  odd.n_routed_experts = 7;
  EXPECT_EQ(Refusal(odd, {2, 1, false}, 2), "");
  EXPECT_EQ(Refusal(odd, {2, 1, true}, 2),
            "--ep: expected a number that divides 7 (routed experts), found 2");
}

TEST(ModelRanksTest, TheErrorNamesWhatDividedRowsNeed) {
  const ModelConfig config = Fairy();
  RankCounts counts = {.n_tensor = 2, .decode_context_parallel = true};
  EXPECT_EQ(Refusal(config, counts, 2), "");
  counts.n_tensor = 3;
  EXPECT_EQ(Refusal(config, counts, 3),
            "--decode-context-parallel: --tp: expected a number that divides 32 (rows of a block "
            "of the cache), found 3");
  counts.n_tensor = 1;
  EXPECT_EQ(Refusal(config, counts, 1),
            "--decode-context-parallel: expected tensor ranks (--tp of 2 or more), found --tp 1");
  counts.n_data = 2;
  counts.expert_parallel = true;
  EXPECT_EQ(Refusal(config, counts, 2),
            "--decode-context-parallel: expected tensor ranks (--tp of 2 or more), found --tp 1 "
            "and --dp-attention");
}

TEST(ModelRanksTest, TheErrorNamesWhatTheExchangeOfExpertsNeeds) {
  const ModelConfig config = Fairy();
  const RankCounts data = {.expert_parallel = true, .n_data = 4};
  EXPECT_EQ(Refusal(config, data, 4), "");
  EXPECT_EQ(Refusal(config, data, 2),
            "--dp-attention times --pp: expected the number of ranks, 2, found 4 times 1");
  EXPECT_EQ(Refusal(config, {.n_tensor = 2, .expert_parallel = true, .n_data = 2}, 4),
            "--dp-attention: expected --tp 1 and the experts on all ranks of a stage (without "
            "--ep, or --ep 2), found --tp 2");
  EXPECT_EQ(Refusal(config, {.n_tensor = 2, .expert_path = ExpertPath::kFused}, 2),
            "--expert-exchange fused: needs the routed experts on several ranks of a stage, found "
            "2 ranks that do not share them: use --ep (as many as --tp) or --dp-attention, or "
            "--expert-exchange gather");
  ModelConfig narrow = config;
  narrow.moe_intermediate_size = 192;
  RankCounts fused = {.n_tensor = 2, .expert_parallel = true, .expert_path = ExpertPath::kFused};
  EXPECT_EQ(Refusal(config, fused, 2), "");
  EXPECT_EQ(Refusal(narrow, fused, 2),
            "--expert-exchange fused: expected intermediate sizes that are multiples of 128, found "
            "192: use --expert-exchange gather");
  narrow.hidden_size = 100;
  EXPECT_NE(Refusal(narrow, fused, 2).find("hidden sizes"), std::string::npos);
}

TEST(ModelRanksTest, TheFusedExchangeIsTakenWhereItCanBe) {
  ModelConfig config = Fairy();
  RankCounts counts = {.n_tensor = 2, .expert_parallel = true};
  EXPECT_EQ(ChooseExpertPath(config, counts), ExpertPath::kFused);
  counts.expert_path = ExpertPath::kGather;
  EXPECT_EQ(ChooseExpertPath(config, counts), ExpertPath::kGather);
  counts.expert_path.reset();
  config.hidden_size = 192;
  EXPECT_EQ(ChooseExpertPath(config, counts), ExpertPath::kGather);
  EXPECT_EQ(ChooseExpertPath(Fairy(), {.n_tensor = 2}), ExpertPath::kGather);
}

TEST(ModelRanksTest, DataRanksOfAStageAreNeighbours) {
  const StageWeights weights = {.layers = std::vector<std::int64_t>(6, 10)};
  const ModelShard share =
      ShardOfRank(5, {.n_stages = 2, .expert_parallel = true, .n_data = 4}, weights);
  EXPECT_EQ(share.stage, 1);
  EXPECT_EQ(share.data_rank, 1);
  EXPECT_EQ(share.expert_rank, 1);
  EXPECT_EQ(share.n_expert, 4);
  EXPECT_EQ(share.n_tensor, 1);
  EXPECT_EQ(share.first_layer, 3);
  EXPECT_EQ(share.data().Owner(6), 2);
}

TEST(ModelRanksTest, NeighboursAreTensorRanksOfAStage) {
  const StageWeights weights = {.layers = std::vector<std::int64_t>(6, 10)};
  const ModelShard share = ShardOfRank(3, {.n_tensor = 2, .n_stages = 3}, weights);
  EXPECT_EQ(share.tensor_rank, 1);
  EXPECT_EQ(share.stage, 1);
  EXPECT_EQ(share.first_layer, 2);
  EXPECT_EQ(share.end_layer, 4);
  EXPECT_FALSE(share.is_first_stage() || share.is_last_stage() || share.is_whole());
  EXPECT_EQ(share.n_expert, 1);
  EXPECT_EQ(share.RowsOfRatio4().n, 1);
  const CacheShard rows =
      ShardOfRank(3, {.n_tensor = 2, .n_stages = 3, .decode_context_parallel = true}, weights)
          .RowsOfRatio4();
  EXPECT_EQ(rows.n, 2);
  EXPECT_EQ(rows.rank, 1);
  const ModelShard with_experts = ShardOfRank(3, {2, 3, true}, weights);
  EXPECT_EQ(with_experts.n_expert, 2);
  EXPECT_EQ(with_experts.expert_rank, 1);
}

// The ends of the stages.
std::vector<std::int64_t> Ends(const StageWeights& weights, int n_stages) {
  std::vector<std::int64_t> ends;
  for (int stage = 0; stage < n_stages; ++stage) {
    const ModelShard share = ShardOfRank(stage, {.n_tensor = 1, .n_stages = n_stages}, weights);
    EXPECT_EQ(share.first_layer, ends.empty() ? 0 : ends.back());
    ends.push_back(share.end_layer);
  }
  return ends;
}

TEST(ModelRanksTest, StagesAreCutByBytes) {
  using Cut = std::vector<std::int64_t>;
  EXPECT_EQ(Ends({.layers = {10, 10, 10, 10}}, 2), (Cut{2, 4}));
  EXPECT_EQ(Ends({.layers = {30, 10, 10, 10}}, 2), (Cut{1, 4}));
  EXPECT_EQ(Ends({.layers = {10, 10, 10, 10}, .last = 20}, 2), (Cut{3, 4}));
  EXPECT_EQ(Ends({.layers = {10, 10, 10, 10}, .first = 25}, 2), (Cut{1, 4}));
  EXPECT_EQ(Ends({.layers = {1, 1, 1}}, 3), (Cut{1, 2, 3}));
  EXPECT_EQ(Ends({.layers = {5}}, 1), (Cut{1}));
}

}  // namespace
}  // namespace fathom::distributed
