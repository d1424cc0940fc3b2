// Computes the memory that a model needs on a host, from its configuration alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "measure/plan/model_sizes.h"
#include "planning/host_plan.h"
#include "planning/rank_plan.h"

namespace fathom::plan {

struct HostWork {
  std::int64_t context = 8192;     // positions of a sequence
  std::int64_t n_sequences = 1;    // sequences decoded together
  std::int64_t step_tokens = 512;  // the most tokens of a step
  int n_threads = 1;
  bool prefix_cache = true;  // the prefix cache has its own memory
};

// Returns the needs of the whole model, drafter included. `budget`: at most half of it is for
// caches. Errors: Model::Load's errors for caches.
Result<HostNeeds> ComputeHostNeeds(const ModelSizes& sizes, const HostWork& work,
                                   std::int64_t budget);

// The speeds of disks that a report compares, in GB/s.
inline constexpr double kComparedDisks[] = {0.5, 3, 6, 12};

// Returns the plan with tokens per second, for kComparedDisks too, as text and as JSON.
std::string ToTable(const ModelSizes& sizes, const HostPlan& plan, const HostSpeeds& speeds);
std::string ToJson(const ModelSizes& sizes, const HostPlan& plan, const HostSpeeds& speeds);
// Return the plans of all ranks in these forms, with the lines that their start prints.
std::string ToTable(const ModelSizes& sizes, std::span<const RankPlan> ranks,
                    const HostSpeeds& speeds);
std::string ToJson(const ModelSizes& sizes, std::span<const RankPlan> ranks,
                   const HostSpeeds& speeds);

}  // namespace fathom::plan
