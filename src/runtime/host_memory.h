// Plans the memory of a run on a host: how much the run may use, and which part of the model is
// streamed as a result.
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
#include "planning/host_plan.h"
#include "planning/load_plan.h"
#include "planning/options.h"
#include "planning/pool_watch.h"

namespace fathom {

// Returns run.memory, or the usable memory (base/usable_memory.h) beside run.memory_beside;
// nullopt: the system does not report it. Warns if n_processes of this machine together use more
// than is usable, and if the system's report is wrong.
std::optional<std::int64_t> FindHostBudget(const RunOptions& run, int n_processes,
                                           const RuntimeEvents& events);

// Plans the memory of a run, and sets the consequences in `plan`: the default size of the caches,
// and no drafter if drafts do not pay. If everything fits and run.memory is missing, `plan` stays
// unchanged. Returns nullopt if the memory is unknown; if run.weights demands all weights in
// memory, and run.memory is missing; or if the run has a device, for which there are other plans,
// or ranks without run.memory. Errors: run.memory for a device; errors of PlanHost.
//
// `ranks`: nullptr, or the ranks of the run. All of them call this function, and each plans its
// share, with the experts that `placement` assigns to it (empty: the default). They agree on the
// drafter, and if one of them has no room for its experts, all of them stream. Errors: run.memory
// on some ranks only; a rank is gone.
Result<std::optional<HostPlan>> PlanHostRun(const ModelConfig& config, const Checkpoint& checkpoint,
                                            const RunOptions& run, const ModelRanks* ranks,
                                            const BlockPlacements& placement,
                                            const Backend& backend, LoadPlan& plan,
                                            const RuntimeEvents& events);

// Checks that streamed experts need not move between the ranks. The error names the option.
Status CheckStreamedRanks(const HostPlan& plan, const RankOptions& options);

// Makes the model read its routed experts from disk into the slots of the plan, for a plan that
// does not fit. Holds the other weights in memory if the plan has room for all of them and
// run.weights does not contradict. Counts of expert uses are read from run.expert_heat and written
// there; a file that cannot be read or written is a warning. ranks and placement: as in
// PlanHostRun; each rank has its own file.
void StreamExperts(const HostPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint,
                   const RunOptions& run, const ModelRanks* ranks, const BlockPlacements& placement,
                   const RuntimeEvents& events, ModelOptions& sizes);

// Measures how fast the backend's threads read memory, in bytes per second. Takes a moment, and
// meanwhile twice the bytes of the caches, or a fourth of `budget`. 0: it cannot be measured.
double MeasureMemorySpeed(const Backend& backend, std::int64_t budget);

// Returns the speeds of a run: the measured speed of its memory (0: not measured), and the speed of
// the disk if the model streams experts from it.
HostSpeeds SpeedsOfRun(double memory_speed, Model& model);

// Reports the plan in one line: as a warning if it reads experts from disk.
void ReportHostPlan(const HostPlan& plan, const HostSpeeds& speeds, const RuntimeEvents& events);

// Reports the plan of a rank's share in one line, like ReportHostPlan without the speed; the first
// rank also reports one line for all ranks. Called by all ranks. Error: a rank is gone.
Status ReportRankPlan(const HostPlan& plan, const HostSpeeds& speeds, const ModelRanks& ranks,
                      const RuntimeEvents& events);

// Shrinks the pool of a model that streams experts while memory is short. Must not outlive the
// model. Returns nullptr if the model does not stream.
std::unique_ptr<PoolWatch> WatchPool(const HostPlan& plan, Model& model,
                                     const RuntimeEvents& events);

}  // namespace fathom
