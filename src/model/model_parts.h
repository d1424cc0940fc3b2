// ModelParts: the parts of a model that differ between one process and many.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/expert_layer.h"
#include "model/expert_store.h"
#include "model/pass_progress.h"
#include "model/tensor_parallel.h"

namespace fathom {

struct ModelOptions;

// The layer may use the store and the tensor parallelism.
struct ModelParts {
  std::unique_ptr<TensorParallel> tensor;
  std::unique_ptr<ExpertStore> store;
  std::unique_ptr<ExpertLayer> experts;

  // Called between two blocks of a main pass that runs in pieces, and before its next block
  // (ExpertStore::ResumePass).
  void PausePass();
  void ResumePass(const ShouldStop& should_stop);
};

// Makes the parts of a model with these checked options. With several ranks, called by all.
using MakeModelParts = std::function<Result<ModelParts>(Backend& backend, const ModelConfig& config,
                                                        const ModelOptions& options)>;

// Makes the parts of a model for a process that has the whole model.
Result<ModelParts> MakeLocalParts(Backend& backend, const ModelConfig& config,
                                  const ModelOptions& options);

}  // namespace fathom
