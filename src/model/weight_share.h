// The weights of one rank: what remains of all the model's weights (model/model_ranks.h).
#pragma once

#include <span>

#include "checkpoint/model_config.h"
#include "model/expert_placement.h"
#include "model/model_ranks.h"
#include "model/weights.h"

namespace fathom {

// Narrows bound weights to those of a share that CheckCounts has found right. Rows of a matrix stay
// where they are in the files; columns are copied, as they are no piece of the file. What belongs
// to other ranks, of this stage or of others, is a weight without bytes, which nothing may read.
// experts: of every block.
void TakeShare(ModelWeights& weights, const ModelConfig& config, const ModelShard& share,
               std::span<const ReplicaMap> experts);

}  // namespace fathom
