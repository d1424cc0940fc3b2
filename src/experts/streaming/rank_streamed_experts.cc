#include "experts/streaming/rank_streamed_experts.h"

#include <algorithm>
#include <utility>

#include "model/draft/drafters.h"

namespace fathom::experts {
namespace {

// Adds the counts of a rank to the counts of others. The ranks run the same steps at the same time
// and wait for the slowest.
void AddRank(const StreamingCounts& rank, StreamingCounts& all) {
  for (const auto member :
       {&StreamingCounts::hash_uses, &StreamingCounts::hash_hits, &StreamingCounts::learned_uses,
        &StreamingCounts::learned_hits, &StreamingCounts::read_experts,
        &StreamingCounts::read_bytes, &StreamingCounts::ahead_experts, &StreamingCounts::ahead_used,
        &StreamingCounts::failed_reads, &StreamingCounts::policy_switches,
        &StreamingCounts::stall_bytes, &StreamingCounts::slots, &StreamingCounts::used_slots,
        &StreamingCounts::read_threads}) {
    all.*member += rank.*member;
  }
  for (const auto member : {&GuessCounts::experts, &GuessCounts::useful, &GuessCounts::reads,
                            &GuessCounts::withdrawn}) {
    all.guesses.*member += rank.guesses.*member;
  }
  for (const auto member : {&StreamingCounts::stall_seconds, &StreamingCounts::stall_busy_seconds,
                            &StreamingCounts::disk_busy_seconds}) {
    all.*member = std::max(all.*member, rank.*member);
  }
  all.measured_bytes_per_second += rank.measured_bytes_per_second;
  all.slot_bytes = std::max(all.slot_bytes, rank.slot_bytes);
  all.third_last_failure = std::max(all.third_last_failure, rank.third_last_failure);
}

}  // namespace

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

void RankStreamedExperts::NoteOthers(std::span<const StreamingCounts> others) {
  const std::lock_guard lock(others_mutex_);
  others_.assign(others.begin(), others.end());
}

std::optional<StreamingCounts> RankStreamedExperts::streaming() const {
  StreamingCounts all = counts();
  const std::lock_guard lock(others_mutex_);
  for (const StreamingCounts& other : others_) AddRank(other, all);
  return all;
}

bool RankStreamedExperts::FailUsers(ForwardPass& pass, std::int64_t block, std::int32_t expert,
                                    const Error& error) {
  const auto is_it = [&](const ExpertFailure& failure) {
    return failure.block == block && failure.expert == expert;
  };
  std::vector<ExpertFailure>& failures = pass.expert_failures;
  if (std::ranges::none_of(failures, is_it)) failures.push_back({block, expert, error});
  return false;
}

}  // namespace fathom::experts
