// The plans of hosts that load a model together, each its share, or of one that loads all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "runtime/host_plan.h"
#include "runtime/load_plan.h"
#include "runtime/needs_finder.h"
#include "runtime/options.h"

namespace fathom {

// The other processes that plan with this one, in the same calls.
struct PlanningPeers {
  AskAll ask = AskNobody;
  // Returns `mine`, or the error of another process: all of them know that one has failed.
  std::function<Status(const Status& mine)> share = [](const Status& mine) { return mine; };
};

// Plans the shares that this process asks about: its own of several ranks, in a prediction those of
// all, or the whole model. Sets in `plan` what they have in common: the tokens of a step, and
// whether there is a drafter, which stays where it is optional only if all shares have room for it.
// If one share has no room for its experts, all stream. Errors: those of PlanStepsOfShares, of this
// process or a peer.
Result<HostPlans> PlanShares(NeedsFinder& finder, LoadPlan& plan, const PlanningPeers& peers = {});

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
