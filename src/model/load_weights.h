// Loading: from an open checkpoint to the weights that a model computes with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "model/model.h"
#include "model/weights.h"

namespace fathom {

// Binds the weights, narrows them to this process's shard, checks their values and brings them to
// where options.weights wants them: names and shapes are right before any value is read. The store
// is bound to `weights`, which must not move afterwards. The checkpoint is closed if all weights
// have moved to memory. Errors: those of a checkpoint that is not what the configuration says, or
// of memory.
Status LoadWeights(Checkpoint& checkpoint, const ModelConfig& config, const ModelOptions& options,
                   const ModelParts& parts, const LoadProgress& progress, ModelWeights& weights,
                   std::vector<std::string>& warnings);

}  // namespace fathom
