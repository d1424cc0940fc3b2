#include "tests/engine/ranks/ranks_model.h"

#include <gtest/gtest.h>

#include <utility>

#include "comm/socket_mesh.h"
#include "engine/ranks/rank_follower.h"
#include "experts/balance/expert_rebalancer.h"
#include "experts/expert_parts.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "tests/engine/schedule_checks.h"
#include "tests/model/test_model.h"

namespace fathom::testing {

// One of several ranks, with its share of the model.
class RunningRanks::Rank {
 public:
  Rank(int rank, MeshEnds ends, const AbortFlag& abort_flag)
      : all_(MakeSocketCommunicator(rank, std::move(ends), abort_flag)) {}

  // Called on all ranks.
  void Load(const std::filesystem::path& directory, const RankCounts& counts, ModelOptions options,
            bool small_memory, TestMemory memory, const StreamingOptions& streaming) {
    Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
    Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
    Result<std::unique_ptr<RankGroups>> groups =
        RankGroups::Join(*all_, *config, WeighStages(*checkpoint, *config), counts);
    Check(groups.has_value(), groups ? "" : groups.error().message);
    groups_ = *std::move(groups);
    options.parts = streaming.slots > 0 ? StreamedParts(streaming, &groups_->ranks())
                                        : ShardedParts(&groups_->ranks());
    if (small_memory) {
      const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
      const DrafterKind* drafter = options.with_draft ? FindDrafter(*checkpoint, *config) : nullptr;
      options.kv_memory_bytes = SmallMemory(*SequenceCache::Create(
          *backend, ShardCache(MakeCacheShape(*config, options, drafter), groups_->ranks().shard)));
    }
    loaded_.emplace(directory, options, TestBackend{.n_threads = 1, .memory = memory});
  }

  Model& model() { return loaded_->model(); }
  // Moves parts of experts beside every step, if there are redundant experts.
  AfterForward Balance() {
    if (groups_->ranks().shard.n_redundant_experts == 0 || model().expert_store().ReadsExperts()) {
      return {};
    }
    rebalancer_.emplace(PlacedExperts::FindIn(model()), 50'001);
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

RunningRanks::RunningRanks(const std::filesystem::path& directory, const RankCounts& counts,
                           const ModelOptions& options, bool small_memory, TestMemory memory,
                           const StreamingOptions& streaming) {
  const int n_ranks = counts.n_tensor * counts.n_data * counts.n_stages;
  std::vector<MeshEnds> mesh = *MakeSocketMesh(n_ranks);
  for (int rank = 1; rank < n_ranks; ++rank) {
    followers_.emplace_back(
        [=, this, ends = std::move(mesh[static_cast<std::size_t>(rank)])]() mutable {
          Rank follower(rank, std::move(ends), abort_flag_);
          follower.Load(directory, counts, options, small_memory, memory, streaming);
          const Status followed = FollowCalls(follower.model(), follower.all(), follower.Balance());
          EXPECT_TRUE(followed) << followed.error().message;
        });
  }
  first_ = std::make_unique<Rank>(0, std::move(mesh[0]), abort_flag_);
  first_->Load(directory, counts, options, small_memory, memory, streaming);
}

RunningRanks::~RunningRanks() = default;

RanksModel::RanksModel(const std::filesystem::path& directory, const RankCounts& counts,
                       const ModelOptions& options, bool small_memory, TestMemory memory,
                       const StreamingOptions& streaming)
    : RunningRanks(directory, counts, options, small_memory, memory, streaming),
      RankLeader(
          first_->model(), first_->all(),
          [](const Error& error) { ADD_FAILURE() << error.message; }, first_->Balance()) {}

RanksModel::~RanksModel() {
  RankMessage end;
  end.Write(RankCall::kEnd);
  EXPECT_TRUE(end.Broadcast(first_->all()));
}

}  // namespace fathom::testing
