// Plans hosts that load a model together, each its share, or one host that loads all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "planning/host_plan.h"
#include "planning/load_plan.h"
#include "planning/needs_finder.h"
#include "planning/options.h"

namespace fathom {

// The other processes, which plan with this one in the same calls.
struct PlanningPeers {
  AgreeOnAllRanks ask = DecideAlone;
  // Returns `mine`, or the error of another process: all of them learn that one has failed.
  std::function<Status(const Status& mine)> share = [](const Status& mine) { return mine; };
};

// Plans the shares that this process needs: its own among several ranks; in a prediction, the
// shares of all ranks; or the whole model. Sets the common values in `plan`: the tokens of a step,
// and whether there is a drafter. An optional drafter stays only if all shares have room for it. If
// one share has no room for its experts, all shares stream. Errors: see PlanStepsOfShares,
// from this process or a peer.
Result<HostPlans> PlanShares(NeedsFinder& finder, LoadPlan& plan, const PlanningPeers& peers = {});

struct RankPlan {
  std::int64_t stage = 0;
  HostPlan plan;
};

// Plans the loading of n_ranks ranks with these options and this many bytes for each, with the
// default placement of experts. n_threads: all ranks together, on one machine. Errors: errors of
// CountRanks, CheckCounts and PlanShares.
Result<std::vector<RankPlan>> PlanAllRanks(const ModelConfig& config, const Checkpoint& checkpoint,
                                           const RankOptions& options, int n_ranks, LoadPlan plan,
                                           int n_threads, std::int64_t budget);

}  // namespace fathom
