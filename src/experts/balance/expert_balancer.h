// The placement of experts that balances the load of the ranks (docs/spec/parallel.md 5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distributed/model_ranks.h"

namespace fathom::experts {

// The placement of one layer's experts; the two members are the inverse of each other.
struct ExpertPlacement {
  std::vector<std::int32_t> physical_to_logical;               // [physical]
  std::vector<std::vector<std::int32_t>> logical_to_physical;  // [logical][its replicas]
};

// Places logical expert p mod n_logical as physical expert p.
ExpertPlacement InitialPlacement(const ExpertCounts& counts);
// Builds a placement from physical_to_logical, where every logical expert has a replica. Replicas
// are ordered by their numbers.
ExpertPlacement MakePlacement(std::span<const std::int32_t> physical_to_logical,
                              std::int64_t n_logical);

// Computes the placement for these loads [logical] as DeepSeek's balancer does: experts with the
// most load per replica get further replicas, which are packed so that every rank has about the
// same load; where the counts allow it, groups are packed to nodes first. Arithmetic in fp32, ties
// go to the lowest number. The counts must be valid (CheckCounts).
ExpertPlacement BalanceExperts(std::span<const float> load, const ExpertCounts& counts);

// Returns max / mean of the load of the ranks if replicas share the load of their expert evenly; 1
// without load.
double RankImbalance(std::span<const float> load, const ExpertPlacement& placement,
                     std::int64_t n_ranks);

}  // namespace fathom::experts
