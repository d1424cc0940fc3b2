// Drops the experts of other ranks.
#pragma once

#include <span>

#include "experts/balance/expert_placement.h"
#include "model/weights.h"

namespace fathom {

// Removes the data of the experts that `expert_rank` does not have from bound weights. `maps` has
// one map for each block; the draft block follows the layers.
void DropOtherExperts(std::span<const ReplicaMap> maps, int expert_rank, ModelWeights& weights);

}  // namespace fathom
