// The weights of one rank: its shard of the bound weights of a model (distributed/model_ranks.h).
#pragma once

#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "model/weights.h"

namespace fathom::distributed {

// Narrows bound weights to the weights of a shard that CheckCounts has accepted. Rows of a matrix
// stay where they are in the files; columns are copied, as they are not contiguous in a file.
// Weights of other ranks and other stages lose their data and must not be read.
void ShardWeights(ModelWeights& weights, const ModelConfig& config, const ModelShard& shard);

// Narrows the weights without reading or copying anything, so that their bytes can be counted; they
// must not be read.
void ShardSizes(ModelWeights& weights, const ModelConfig& config, const ModelShard& shard);

}  // namespace fathom::distributed
