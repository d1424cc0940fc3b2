// ModelParts: the parts of a model that differ between one process and many.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/expert_layer.h"
#include "model/expert_store.h"
#include "model/tensor_parallel.h"

namespace fathom::model {

struct ModelOptions;

// The layer may use the store and the tensor parallelism.
struct ModelParts {
  std::unique_ptr<TensorParallel> tensor;
  std::unique_ptr<ExpertStore> store;
  std::unique_ptr<ExpertLayer> experts;
  bool notes_experts = false;  // `experts` notes the experts of a pass: Activations::noted_ids
};

// Makes the parts of a model with these checked options. With several ranks, called by all.
using MakeModelParts = std::function<Result<ModelParts>(Backend& backend, const ModelConfig& config,
                                                        const ModelOptions& options)>;

// Makes the parts of a model for a process that has the whole model.
Result<ModelParts> MakeLocalParts(Backend& backend, const ModelConfig& config,
                                  const ModelOptions& options);

}  // namespace fathom::model
