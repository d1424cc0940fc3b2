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

// Binds the weights, narrows them to this process's shard, checks their values and moves them to
// where options.weights asks: names and shapes are checked before any value is read. Binds the
// store to `weights`, which must not move afterwards. Closes the checkpoint if all weights have
// moved to memory. Errors: the checkpoint contradicts the configuration; out of memory.
Status LoadWeights(Checkpoint& checkpoint, const ModelConfig& config, const ModelOptions& options,
                   const ModelParts& parts, const LoadProgress& progress, ModelWeights& weights,
                   std::vector<std::string>& warnings);

}  // namespace fathom
