// Plans the memory of a run: how much it may use, and which part of the model is streamed as a
// result.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "kernels/backend.h"
#include "planning/host_plan.h"
#include "planning/load_plan.h"
#include "planning/options.h"

namespace fathom::planning {

// Returns run.memory, or the usable memory (base/usable_memory.h) beside run.memory_beside;
// nullopt: the system does not report it. Warns if n_processes of this machine together use more
// than is usable, and if the system's report is wrong.
std::optional<std::int64_t> FindHostBudget(const RunOptions& run, int n_processes,
                                           const RuntimeEvents& events);

// Returns the default memory of constraints (constraint/constraint_memory.h): a sixteenth of the
// usable bytes (without an argument: the bytes of FindUsableMemory), at least 512 MiB and at most
// 4 GiB.
std::int64_t DefaultConstraintMemory(std::int64_t usable_bytes);
std::int64_t DefaultConstraintMemory();

// Plans the memory of a run, and sets the consequences in `plan`: the default size of the caches,
// the sizes of steps if experts are streamed, and no drafter if drafts do not pay. If everything
// fits and run.memory is missing, only the size of the caches is set. Returns nullopt if the memory
// is unknown; if run.weights demands all weights in memory, and run.memory is missing; or if the
// run has a device, for which there are other plans (model/memory_plan.h), or ranks without
// run.memory. Errors: run.memory for a device; errors of PlanShares.
//
// `ranks`: nullptr, or the ranks of the run. All of them call this function, and each plans its
// share, with the experts that `placement` assigns to it (empty: the default). They agree on the
// drafter, and if one of them has no room for its experts, all of them stream. Errors: run.memory
// on some ranks only; streamed experts that run.ranks moves between ranks; a rank is gone.
Result<std::optional<HostPlan>> PlanRun(ModelConfig config, const Checkpoint& checkpoint,
                                        const RunOptions& run, const ModelRanks* ranks,
                                        const BlockPlacements& placement, const Backend& backend,
                                        LoadPlan& plan, const RuntimeEvents& events);

}  // namespace fathom::planning
