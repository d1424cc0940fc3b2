#include "planning/load_plan.h"

#include <algorithm>

#include "engine/prompt_lookup.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "model/weights.h"

namespace fathom::planning {
namespace {

constexpr std::int64_t kLogitRows = 64;  // rows of one call; more rows take several calls

}  // namespace

std::int64_t MostDrafts(const ServingOptions& serving, const Checkpoint& checkpoint,
                        ModelConfig config) {
  if (serving.draft_depth) return *serving.draft_depth;
  const DrafterKind* const drafter = FindDrafter(checkpoint, config);
  return drafter == nullptr ? 0 : drafter->depth(config);
}

LoadPlan MakeLoadPlan(const ServingOptions& serving, std::int64_t n_context,
                      std::int64_t most_drafts) {
  // A step verifies for a sequence either drafts or looked-up tokens, not both.
  const std::int64_t rows_per_sequence =
      1 + std::max(most_drafts, serving.lookup_depth.value_or(kMostLookups));
  return {
      .sizes = {.max_sequences = serving.max_sequences,
                .max_context = n_context,
                .max_batch_tokens = std::min(serving.max_batch_tokens.value_or(kDefaultBatchTokens),
                                             serving.max_sequences * n_context),
                .max_logit_rows = std::min(serving.max_sequences * rows_per_sequence, kLogitRows),
                .with_draft = most_drafts > 0,
                .kv_memory_bytes = serving.kv_memory_bytes.value_or(kDefaultKvMemory)},
      .prefix_cache = serving.prefix_cache,
      .drafts_are_optional = !serving.draft_depth,
      .steps_may_grow = !serving.max_batch_tokens};
}

Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config) {
  if (run.n_context && *run.n_context > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context: expected at most {}, the positions of this model, found {}",
                     config.max_position_embeddings, *run.n_context);
  }
  return run.n_context.value_or(std::min(fallback, config.max_position_embeddings));
}

std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  const std::int64_t more = prefix_cache ? std::min(4 * full_bytes, kGibibyte) : 0;
  return std::min(full_bytes + more, available_bytes / 2);
}

void SetDefaultKvMemory(const ModelConfig& config, const DrafterKind* drafter,
                        const ModelShard& shard, std::int64_t available_bytes, LoadPlan& plan) {
  if (plan.sizes.kv_memory_bytes != kDefaultKvMemory) return;
  plan.sizes.kv_memory_bytes = 0;
  const CacheShape whole = MakeCacheShape(config, plan.sizes, drafter);
  plan.sizes.kv_memory_bytes = DefaultKvMemory(SequenceCache::FullBytes(ShardCache(whole, shard)),
                                               available_bytes, plan.prefix_cache);
}

Result<RankCounts> CountRanks(const RankOptions& options, int n_ranks, const ModelConfig& config) {
  int n_stage_ranks = std::max(n_ranks / std::max(options.n_stages, 1), 1);
  RankCounts counts = {.n_stages = options.n_stages,
                       .n_redundant_experts = options.n_redundant_experts};
  if (options.dp_attention) {
    counts.n_data = n_stage_ranks;
    counts.n_tensor = std::max(options.n_tensor, 1);
  } else {
    counts.n_tensor = options.n_tensor != 0 ? options.n_tensor : n_stage_ranks;
  }
  const bool divides =
      counts.n_redundant_experts > 0 || config.n_routed_experts % counts.n_tensor == 0;
  counts.expert_parallel = options.n_expert != 0
                               ? options.n_expert > 1
                               : counts.n_data > 1 || (counts.n_tensor > 1 && divides);
  counts.decode_context_parallel = options.decode_context_parallel;
  if (!options.expert_exchange.empty()) {
    counts.expert_path =
        options.expert_exchange == "fused" ? ExpertPath::kFused : ExpertPath::kGather;
  }
  n_stage_ranks = counts.n_tensor * counts.n_data;
  if (options.n_expert > 1 && options.n_expert != n_stage_ranks) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--ep: expected 1 or {} (the ranks of a stage), found {}", n_stage_ranks,
                     options.n_expert);
  }
  return counts;
}

Result<MemoryPlan> PlanDeviceMemory(ModelConfig config, const Checkpoint& checkpoint,
                                    std::int64_t free, HostExpertChoice choice) {
  const Result<std::int64_t> n_context = ContextLength({}, kDefaultContext, config);
  if (!n_context) return Unexpected(n_context.error());
  LoadPlan plan = MakeLoadPlan({}, *n_context, MostDrafts({}, checkpoint, config));
  const DrafterKind* const drafter =
      plan.sizes.with_draft ? FindDrafter(checkpoint, config) : nullptr;
  SetDefaultKvMemory(config, drafter, WholeModel(config), free, plan);
  const Result<ModelWeights> weights = BindWeights(checkpoint, config, drafter);
  if (!weights) return Unexpected(weights.error());
  Result<MemoryNeeds> needs = ComputeMemoryNeeds(*weights, config, plan.sizes, drafter,
                                                 MakeCacheShape(config, plan.sizes, drafter),
                                                 /*rank_bytes=*/0);
  if (!needs) return Unexpected(needs.error());
  return PlanMemory(*std::move(needs), free, choice);
}

}  // namespace fathom::planning
