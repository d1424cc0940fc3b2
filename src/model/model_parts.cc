#include "model/model_parts.h"

#include "model/mapped_experts.h"
#include "model/model.h"

namespace fathom::model {

Result<ModelParts> MakeLocalParts(Backend& backend, const ModelConfig& config,
                                  const ModelOptions& /*options*/) {
  const Stage stage = {.end_layer = config.num_hidden_layers};
  ModelParts parts;
  parts.tensor = std::make_unique<TensorParallel>(backend, stage);
  parts.store = std::make_unique<MappedExperts>(backend, config, stage);
  parts.experts = std::make_unique<LocalExperts>(backend, *parts.store, config.swiglu_limit);
  return parts;
}

}  // namespace fathom::model
