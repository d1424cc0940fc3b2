// Carries out the plan of a host that streams a part of the model from disk (planning/run_plan.h).
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "planning/host_plan.h"
#include "planning/options.h"
#include "planning/pool_watch.h"

namespace fathom::runtime {

// Makes the model read its routed experts from disk into the slots of the plan, for a plan that
// does not fit. Holds the other weights in memory if the plan has room for all of them and
// run.weights does not contradict. Counts of expert uses are read from run.expert_heat and written
// there; a file that cannot be read or written is a warning. ranks and placement: as in
// PlanRun; each rank has its own file.
void StreamExperts(const HostPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint,
                   const RunOptions& run, const ModelRanks* ranks, const BlockPlacements& placement,
                   const RuntimeEvents& events, ModelOptions& sizes);

// Measures how fast the backend's threads read memory, in bytes per second. Takes a moment, and
// meanwhile twice the bytes of the caches, or a fourth of `budget`. 0: it cannot be measured.
double MeasureMemorySpeed(const Backend& backend, std::int64_t budget);

// Returns the speeds of a run: the measured speed of its memory (0: not measured), and the speed of
// the disk if the model streams experts from it.
HostSpeeds SpeedsOfRun(double memory_speed, Model& model);

// Reports the plan in one line: as a warning if it reads experts from disk. With several ranks
// (nullptr: none), all of them call it: the line of a rank's share has no speed, and the first rank
// also reports one line for all ranks. Error: a rank is gone.
Status ReportHostPlan(const HostPlan& plan, const HostSpeeds& speeds, const ModelRanks* ranks,
                      const RuntimeEvents& events);

// Shrinks the pool of a model that streams experts while memory is short. Must not outlive the
// model. Returns nullptr if the model does not stream.
std::unique_ptr<PoolWatch> WatchPool(const HostPlan& plan, Model& model,
                                     const RuntimeEvents& events);

}  // namespace fathom::runtime
