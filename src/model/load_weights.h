// Loading: from an open checkpoint to the weights that a model computes with.
#pragma once

#include "base/result.h"
#include "model/model_state.h"

namespace fathom::model {

// Binds model.weights, narrows them to this process's shard, checks their values and moves them to
// the memory that model.options.weights selects: names and shapes are checked before any value is
// read. Copies weights to a device according to model.memory_plan. Binds the store to the weights:
// the model must not move afterwards. Closes the checkpoint if all weights have moved to memory.
// Errors: the checkpoint contradicts the configuration; out of memory.
Status LoadWeights(ModelState& model, const LoadProgress& progress);

}  // namespace fathom::model
