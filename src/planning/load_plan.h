// LoadPlan: the sizes with which a model is loaded, and the ranks that divide it, from the options
// of a run.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "model/memory_plan.h"
#include "model/model.h"
#include "planning/options.h"

namespace fathom::model {
struct DrafterKind;
}  // namespace fathom::model

namespace fathom::planning {

inline constexpr std::int64_t kDefaultContext = 8192;  // positions per sequence

// Value of ModelOptions::kv_memory_bytes for the rule of DefaultKvMemory.
inline constexpr std::int64_t kDefaultKvMemory = -1;

// The options that are equal on all ranks. LoadedModel::Load sets all others from RunOptions and
// the ranks.
struct LoadPlan {
  ModelOptions sizes;
  bool prefix_cache = false;
  // The drafter is omitted if memory is short.
  bool drafts_are_optional = false;
  // Steps may have more tokens than sizes.max_batch_tokens.
  bool steps_may_grow = false;
};

// Returns the most tokens that are drafted together; 0: the model is loaded without its drafter. A
// fixed depth is returned for any checkpoint, so that the loader, which knows what is missing,
// refuses a checkpoint without a drafter.
std::int64_t MostDrafts(const ServingOptions& serving, const Checkpoint& checkpoint,
                        ModelConfig config);

// Returns the plan for an engine whose sequences have n_context positions.
LoadPlan MakeLoadPlan(const ServingOptions& serving, std::int64_t n_context,
                      std::int64_t most_drafts);

// Returns the positions to allocate memory for: run.n_context, or `fallback` but at most the
// model's positions. Error: the model has fewer than n_context.
Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config);

// Returns the default bytes of memory for the caches of a rank: the need of all sequences at full
// context (`full_bytes`) and, for a prefix cache, four times as much or 1 GiB more, whichever is
// less; at most half of the available bytes.
std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache);

// Replaces kDefaultKvMemory in plan.sizes, for a rank with this shard of the model and this much
// available memory. The configuration includes the fields that the drafter adds; drafter: nullptr:
// none.
void SetDefaultKvMemory(const ModelConfig& config, const DrafterKind* drafter,
                        const ModelShard& shard, std::int64_t available_bytes, LoadPlan& plan);

// Returns how n_ranks ranks divide the model. CheckCounts decides whether the model allows it.
// Error: an --ep that is neither 1 nor all ranks of a stage.
Result<RankCounts> CountRanks(const RankOptions& options, int n_ranks, const ModelConfig& config);

// Plans the memory of a device with `free` bytes as loading the whole model with the default
// options would. Errors: see BindWeights and PlanMemory.
Result<MemoryPlan> PlanDeviceMemory(ModelConfig config, const Checkpoint& checkpoint,
                                    std::int64_t free, HostExpertChoice choice);

}  // namespace fathom::planning
