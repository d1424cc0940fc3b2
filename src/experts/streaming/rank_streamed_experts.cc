#include "experts/streaming/rank_streamed_experts.h"

#include <algorithm>
#include <utility>

#include "experts/store/other_experts.h"
#include "model/draft/drafters.h"

namespace fathom {

Result<std::unique_ptr<RankStreamedExperts>> RankStreamedExperts::Create(
    Backend& backend, const ModelConfig& config, const ModelShard& shard,
    const BlockPlacements& placement, std::int64_t max_tokens, StreamingOptions options) {
  Status valid = CheckOptions(backend, config, options);
  const ExpertCounts counts = CountExperts(config, shard);
  if (valid && !placement.empty()) valid = CheckPlacements(placement, NumBlocks(config), counts);
  if (!valid) return Unexpected(valid.error());
  options.slots = std::min(options.slots, NumBlocks(config) * config.n_routed_experts);
  return std::unique_ptr<RankStreamedExperts>(new RankStreamedExperts(
      backend, config, shard, MakeReplicaMaps(placement, NumBlocks(config), counts), max_tokens,
      std::move(options)));
}

RankStreamedExperts::RankStreamedExperts(Backend& backend, const ModelConfig& config,
                                         const ModelShard& shard, std::vector<ReplicaMap> maps,
                                         std::int64_t max_tokens, StreamingOptions options)
    : StreamedExperts(backend, config, MakeStage(shard), max_tokens, std::move(options)),
      expert_rank_(shard.expert_rank),
      maps_(std::move(maps)) {}

void RankStreamedExperts::ShardWeights(ModelWeights& weights) const {
  DropOtherExperts(maps_, expert_rank_, weights);
}

void RankStreamedExperts::BeginPass(Pass pass, const BatchView& whole) {
  if (pass == Pass::kMain) failures_.clear();
  StreamedExperts::BeginPass(pass, whole);
}

bool RankStreamedExperts::FailUsers(std::int64_t block, std::int32_t expert, const Error& error) {
  const auto is_it = [&](const ExpertFailure& failure) {
    return failure.block == block && failure.expert == expert;
  };
  if (std::ranges::none_of(failures_, is_it)) failures_.push_back({block, expert, error});
  return false;
}

}  // namespace fathom
