// One answer each, where several ranks compute it: the followers' caches must be what the first
// rank's decisions have made of them, whatever was shared, forked, preempted, drafted or taken
// back.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/rank_follower.h"
#include "engine/rank_leader.h"
#include "model/cache_shape.h"
#include "model/model_ranks.h"
#include "model/rebalance_schedule.h"
#include "parallel/socket_mesh.h"
#include "tests/engine/schedule_checks.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

// One of several ranks, with its share of the model.
class Rank {
 public:
  Rank(int rank, MeshEnds ends, const Alarm& alarm)
      : all_(MakeSocketCommunicator(rank, std::move(ends), alarm)) {}

  // Called on all ranks.
  void Load(const std::filesystem::path& directory, const RankCounts& counts, ModelOptions options,
            bool small_memory) {
    Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
    const Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
    Result<std::unique_ptr<RankGroups>> groups =
        RankGroups::Join(*all_, *config, WeighStages(*checkpoint, *config), counts);
    Check(groups.has_value(), groups ? "" : groups.error().message);
    groups_ = *std::move(groups);
    options.ranks = &groups_->ranks();
    if (small_memory) {
      const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
      options.kv_memory_bytes =
          SmallMemory(*SequenceCache::Create(*backend, CacheShapeOf(*config, options)));
    }
    loaded_.emplace(directory, options, TestBackend{.n_threads = 1});
  }

  Model& model() { return loaded_->model(); }
  // Experts move between any two steps, where there are more of them than needed.
  AfterForward Balance() {
    if (groups_->ranks().share.n_redundant_experts == 0) {
      return {};
    }
    rebalancer_.emplace(model().experts(), 1);
    schedule_.emplace(*rebalancer_, 1, [](const RebalanceReport&) {});
    return [this](std::int64_t n_tokens) { return schedule_->AfterStep(n_tokens); };
  }
  Communicator& all() { return *all_; }

 private:
  std::unique_ptr<Communicator> all_;
  std::unique_ptr<RankGroups> groups_;
  std::optional<TestModel> loaded_;
  std::optional<ExpertRebalancer> rebalancer_;
  std::optional<RebalanceSchedule> schedule_;
};

// A model of several ranks, a thread each but for the first, as the engine wants it.
class RanksModel final : public LanguageModel {
 public:
  RanksModel(const std::filesystem::path& directory, const RankCounts& counts,
             const ModelOptions& options, bool small_memory) {
    const int n_ranks = counts.n_tensor * counts.n_data * counts.n_stages;
    std::vector<MeshEnds> mesh = *MakeSocketMesh(n_ranks);
    for (int rank = 1; rank < n_ranks; ++rank) {
      followers_.emplace_back([=, this,
                               ends = std::move(mesh[static_cast<std::size_t>(rank)])]() mutable {
        Rank follower(rank, std::move(ends), alarm_);
        follower.Load(directory, counts, options, small_memory);
        const Status followed = FollowCalls(follower.model(), follower.all(), follower.Balance());
        EXPECT_TRUE(followed) << followed.error().message;
      });
    }
    first_.emplace(0, std::move(mesh[0]), alarm_);
    first_->Load(directory, counts, options, small_memory);
    leader_.emplace(
        first_->model(), first_->all(), [](const Error& error) { ADD_FAILURE() << error.message; },
        first_->Balance());
  }
  ~RanksModel() override {
    RankMessage end;
    end.Add(static_cast<std::int64_t>(RankCall::kEnd));
    EXPECT_TRUE(end.Broadcast(first_->all()));
  }

  ModelLimits Limits() const override { return leader_->Limits(); }
  SequenceCache& Cache() override { return leader_->Cache(); }
  Status Forward(const Batch& batch) override { return leader_->Forward(batch); }
  Status StartLogits(std::span<const std::int32_t> rows, int place) override {
    return leader_->StartLogits(rows, place);
  }
  Result<Matrix<const float>> FinishLogits(int place) override {
    return leader_->FinishLogits(place);
  }
  Status ForwardDraft(const Batch& next, std::span<const std::int32_t> stream_rows,
                      StreamSource source) override {
    return leader_->ForwardDraft(next, stream_rows, source);
  }
  Result<Matrix<const float>> DraftLogits(std::span<const std::int32_t> rows) override {
    return leader_->DraftLogits(rows);
  }

 private:
  Alarm alarm_;
  std::vector<std::jthread> followers_;
  std::optional<Rank> first_;
  std::optional<RankLeader> leader_;
};

struct Cut {
  const char* name;
  const char* golden;  // in the golden data; nullptr: the embedded model
  RankCounts counts;
};

RankCounts DataRanksOf(int n_data, int n_stages, ExpertPath path) {
  return {.n_stages = n_stages, .expert_parallel = true, .n_data = n_data, .expert_path = path};
}

class SchedulesOnRanks : public ::testing::TestWithParam<Cut> {};

TEST_P(SchedulesOnRanks, AnswersAreThoseOfEachAlone) {
  const auto directory = GetParam().golden == nullptr ? std::optional(ProjectPath("models/fairy"))
                                                      : SharedData(GetParam().golden);
  if (!directory) GTEST_SKIP() << kNoSharedData;
  const RankCounts& counts = GetParam().counts;
  ExpectOneAnswerEachOf(
      *directory,
      [&](const std::filesystem::path& path, const ScheduleSetup& setup) {
        return std::make_unique<RanksModel>(path, counts,
                                            ModelOptions{.max_sequences = setup.max_sequences,
                                                         .max_context = kContext,
                                                         .max_batch_tokens = setup.max_batch_tokens,
                                                         .max_logit_rows = setup.max_logit_rows,
                                                         .with_mtp = setup.engine.draft.enabled},
                                            setup.small_memory);
      },
      10, false, counts.n_data);
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, SchedulesOnRanks,
    ::testing::Values(Cut{"fairy_tensor_2", nullptr, {2, 1, true}},
                      Cut{"fairy_stages_2", nullptr, {1, 2, false}},
                      Cut{"fairy_tensor_2_stages_2", nullptr, {2, 2, true}},
                      Cut{"fairy_tensor_2_moving_experts", nullptr, {2, 1, true, 4}},
                      Cut{"fairy_data_2_fused", nullptr, DataRanksOf(2, 1, ExpertPath::kFused)},
                      Cut{"fairy_data_2_gathered", nullptr, DataRanksOf(2, 1, ExpertPath::kGather)},
                      Cut{"fairy_data_4_fused", nullptr, DataRanksOf(4, 1, ExpertPath::kFused)},
                      Cut{"fairy_data_2_stages_2", nullptr, DataRanksOf(2, 2, ExpertPath::kFused)},
                      Cut{"flash_mini_data_2", "oracle/flash-mini",
                          DataRanksOf(2, 1, ExpertPath::kGather)},
                      Cut{"flash_mini_stages_2", "oracle/flash-mini", {1, 2, false}},
                      Cut{"pro_mini_tensor_2_stages_2", "oracle/pro-mini", {2, 2, true}},
                      Cut{"base_mini_stages_4", "oracle/base-mini", {1, 4, false}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace fathom::testing
