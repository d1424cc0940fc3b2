// The plans of hosts that load a model together, each its share, or of one that loads all of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "runtime/host_plan.h"
#include "runtime/load_plan.h"
#include "runtime/options.h"

namespace fathom {

// Plans the shares that this process asks about, each with so many bytes: its own of several ranks,
// or in a prediction those of all; no shares: the whole model. Sets in `plan` what they have in
// common: the tokens of a step, and whether there is a drafter, which stays where it is optional
// only if all shares have room for it. If one share has no room for its experts, all stream. `ask`
// asks the other ranks, which call this function as well. Errors: those of PlanStepsOfShares.
Result<HostPlans> PlanShares(const ModelConfig& config, const Checkpoint& checkpoint,
                             std::span<const HostShare> shares, LoadPlan& plan, int n_threads,
                             std::int64_t budget, const AskAll& ask);

struct RankPlan {
  std::int64_t stage = 0;
  HostPlan plan;
};

// Plans what a start of n_ranks ranks with these options and so many bytes for each would load,
// with the default placement of experts. n_threads: of all ranks together, on one machine. Errors:
// those of CountRanks, CheckCounts and PlanShares.
Result<std::vector<RankPlan>> PlanAllRanks(const ModelConfig& config, const Checkpoint& checkpoint,
                                           const RankOptions& options, int n_ranks, LoadPlan plan,
                                           int n_threads, std::int64_t budget);

}  // namespace fathom
