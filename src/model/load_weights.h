// Loading: from an open checkpoint to the weights that a model computes with.
#pragma once

#include "base/result.h"
#include "model/model_state.h"

namespace fathom {

// Binds model.weights, narrows them to this process's shard, checks their values and moves them to
// where model.options.weights asks: names and shapes are checked before any value is read. A device
// gets its weights, as model.memory_plan says. Binds
// the store to the weights: the model must not move afterwards. Closes the checkpoint if all
// weights have moved to memory. Errors: the checkpoint contradicts the configuration; out of
// memory.
Status LoadWeights(ModelState& model, const LoadProgress& progress);

}  // namespace fathom
