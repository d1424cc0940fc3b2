// Plans hosts that load a model together, each its share, or one host that loads all of it.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "planning/host_needs.h"
#include "planning/host_plan.h"
#include "planning/load_plan.h"
#include "planning/options.h"

namespace fathom::planning {

// Returns whether all processes that plan together say yes; each of them gets the same result.
// Errors: one of them is gone.
using AgreeOnAllRanks = std::function<Result<bool>(bool yes)>;
// The function for a process that plans alone.
inline Result<bool> DecideAlone(bool yes) { return yes; }

// The other processes, which plan with this one in the same calls.
struct PlanningPeers {
  AgreeOnAllRanks ask = DecideAlone;
  // Returns `mine`, or the error of another process: all of them learn that one has failed.
  std::function<Status(const Status& mine)> share = [](const Status& mine) { return mine; };
};

// Returns plan(step_tokens). If one of these plans streams experts, returns the plans of longer
// steps, because each expert is read once per step. They have as many tokens, up to `most`, as fit
// with their activations in a small part of each budget (docs/spec/streaming.md 2.5). Errors: see
// `plan` and `ask`.
Result<HostPlans> PlanLongSteps(
    std::int64_t step_tokens, std::int64_t most,
    const std::function<Result<HostPlans>(std::int64_t step_tokens)>& plan,
    const AgreeOnAllRanks& ask = DecideAlone);

// Plans steps for each share of the finder. Makes steps longer that may grow, in `plan` too.
// Errors: see NeedsFinder, PlanHostMemory and `ask`.
Result<HostPlans> PlanStepsOfShares(NeedsFinder& finder, LoadPlan& plan,
                                    const AgreeOnAllRanks& ask = DecideAlone);

// Plans the shares that this process needs: its own among several ranks; in a prediction, the
// shares of all ranks; or the whole model. Sets the common values in `plan`: the tokens of a step,
// and whether there is a drafter. An optional drafter stays only if all shares have room for it, or
// if nearly all chosen experts are in memory beside it (docs/spec/streaming.md 2.6). If one share
// has no room for its experts, all shares stream. Errors: see PlanStepsOfShares, from this process
// or a peer.
Result<HostPlans> PlanShares(NeedsFinder& finder, LoadPlan& plan, const PlanningPeers& peers = {});

// Plans the whole model on one host, with its drafter. `plan` comes from MakeLoadPlan. Reads no
// weights. Errors: see PlanStepsOfShares.
Result<HostPlans> PlanHost(const ModelConfig& config, const Checkpoint& checkpoint, LoadPlan plan,
                           int n_threads, std::int64_t budget);

// Plans the loading of n_ranks ranks with these options and this many bytes for each, with the
// default placement of experts. n_threads: all ranks together, on one machine. Errors: errors of
// CountRanks, CheckCounts and PlanShares.
Result<HostPlans> PlanAllRanks(const ModelConfig& config, const Checkpoint& checkpoint,
                               const RankOptions& options, int n_ranks, LoadPlan plan,
                               int n_threads, std::int64_t budget);

}  // namespace fathom::planning
