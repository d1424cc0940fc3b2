// The experts that other ranks have.
#pragma once

#include <span>

#include "experts/balance/expert_placement.h"
#include "model/weights.h"

namespace fathom {

// Takes the data of the experts that `expert_rank` does not have out of bound weights. `maps` has
// one of each block; the draft block follows the layers.
void DropOtherExperts(std::span<const ReplicaMap> maps, int expert_rank, ModelWeights& weights);

}  // namespace fathom
