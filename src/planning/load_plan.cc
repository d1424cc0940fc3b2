#include "planning/load_plan.h"

#include <algorithm>

#include "engine/prompt_lookup.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "model/weights.h"

namespace fathom {
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

void SetDefaultKvMemory(ModelConfig config, const Checkpoint& checkpoint, const ModelShard& shard,
                        std::int64_t available_bytes, LoadPlan& plan) {
  if (plan.sizes.kv_memory_bytes != kDefaultKvMemory) return;
  plan.sizes.kv_memory_bytes = 0;
  const DrafterKind* const drafter =
      plan.sizes.with_draft ? FindDrafter(checkpoint, config) : nullptr;
  const CacheShape whole = MakeCacheShape(config, plan.sizes, drafter);
  plan.sizes.kv_memory_bytes = DefaultKvMemory(SequenceCache::FullBytes(ShardCache(whole, shard)),
                                               available_bytes, plan.prefix_cache);
}

Result<MemoryPlan> PlanDeviceMemory(ModelConfig config, const Checkpoint& checkpoint,
                                    const ServingOptions& serving, std::int64_t free,
                                    HostExpertChoice choice) {
  const Result<std::int64_t> n_context = ContextLength({}, kDefaultContext, config);
  if (!n_context) return Unexpected(n_context.error());
  LoadPlan plan = MakeLoadPlan(serving, *n_context, MostDrafts(serving, checkpoint, config));
  SetDefaultKvMemory(config, checkpoint, WholeModel(config), free, plan);
  const DrafterKind* const drafter =
      plan.sizes.with_draft ? FindDrafter(checkpoint, config) : nullptr;
  const Result<ModelWeights> weights = BindWeights(checkpoint, config, drafter);
  if (!weights) return Unexpected(weights.error());
  Result<MemoryNeeds> needs = ComputeMemoryNeeds(*weights, config, plan.sizes, drafter,
                                                 MakeCacheShape(config, plan.sizes, drafter),
                                                 /*rank_bytes=*/0);
  if (!needs) return Unexpected(needs.error());
  return PlanMemory(*std::move(needs), free, choice);
}

}  // namespace fathom
