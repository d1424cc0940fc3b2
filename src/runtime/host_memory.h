// The memory of a run on a host: how much it may take, and what of the model is streamed therefore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "runtime/host_plan.h"
#include "runtime/load_plan.h"
#include "runtime/options.h"
#include "runtime/pool_watch.h"

namespace fathom {

// Returns run.memory, or what is usable (base/usable_memory.h) beside run.memory_beside; nullopt:
// the system does not say.
// Warns of more than is usable if n_processes of this machine take as much, and of what the system
// says wrongly.
std::optional<std::int64_t> FindHostBudget(const RunOptions& run, int n_processes,
                                           const RuntimeEvents& events);

// Plans the memory of a run, and sets in `plan` what follows: the default of the caches, a drafter
// that does not pay. Where all fits and run.memory is missing, `plan` stays. nullopt: nothing is
// known of the memory; run.weights asks for all of them in memory, and run.memory is missing; or
// the run has a device, for which there are other plans, or ranks without run.memory. Errors:
// run.memory for a device; those of PlanHost.
//
// `ranks`: nullptr, or those of the run, which all call it: each plans its share, of which
// `placement` has the experts (empty: the default). They agree on the drafter, and if one of them
// has no room for its experts, all of them stream. Errors: run.memory on some ranks only, or a rank
// that is gone.
Result<std::optional<HostPlan>> PlanHostRun(const ModelConfig& config, const Checkpoint& checkpoint,
                                            const RunOptions& run, const ModelRanks* ranks,
                                            const BlockPlacements& placement,
                                            const Backend& backend, LoadPlan& plan,
                                            const RuntimeEvents& events);

// Checks that experts which are streamed need not move between the ranks. The error names the
// option.
Status CheckStreamedRanks(const HostPlan& plan, const RankOptions& options);

// Makes the model read its routed experts from disk into the slots of a plan that does not fit, and
// hold the other weights in memory, if the plan has room for all of them and run.weights says
// nothing else. Uses of experts are read from run.expert_heat and written there; what cannot be
// read or written is a warning. ranks and placement: as in PlanHostRun; each rank has a file of its
// own.
void StreamExperts(const HostPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint,
                   const RunOptions& run, const ModelRanks* ranks, const BlockPlacements& placement,
                   const RuntimeEvents& events, ModelOptions& sizes);

// Measures how fast the backend's threads read memory, in bytes per second; takes a moment, and
// meanwhile twice the bytes of the caches, or a fourth of `budget`. 0: it cannot be measured.
double MeasureMemorySpeed(const Backend& backend, std::int64_t budget);

// Returns the speeds of a run: of its memory, as measured (0: not), and of the disk from which the
// model streams experts, if it does.
HostSpeeds SpeedsOfRun(double memory_speed, Model& model);

// Reports the plan in one line: as a warning if it reads experts from disk.
void ReportHostPlan(const HostPlan& plan, const HostSpeeds& speeds, const RuntimeEvents& events);

// Reports the plan of a rank's share in one line, as ReportHostPlan does without the speed, and on
// the first rank that of all together. Called by all ranks. Error: a rank that is gone.
Status ReportRankPlan(const HostPlan& plan, const HostSpeeds& speeds, const ModelRanks& ranks,
                      const RuntimeEvents& events);

// Lets the pool of a model that streams experts shrink while memory is short. Must not outlive the
// model. nullptr: the model does not stream.
std::unique_ptr<PoolWatch> WatchPool(const HostPlan& plan, Model& model,
                                     const RuntimeEvents& events);

}  // namespace fathom
