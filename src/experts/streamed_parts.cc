#include "experts/streamed_parts.h"

#include <memory>
#include <utility>

#include "experts/streaming/streamed_experts.h"
#include "model/expert_layer.h"
#include "model/model.h"
#include "model/tensor_parallel.h"

namespace fathom {

MakeModelParts StreamedParts(StreamingOptions options) {
  return [options = std::move(options)](Backend& backend, const ModelConfig& config,
                                        const ModelOptions& model) -> Result<ModelParts> {
    Result<std::unique_ptr<StreamedExperts>> store =
        StreamedExperts::Create(backend, config, model.max_batch_tokens, options);
    if (!store) return Unexpected(store.error());
    ModelParts parts;
    parts.tensor =
        std::make_unique<TensorParallel>(backend, Stage{.end_layer = config.num_hidden_layers});
    parts.store = *std::move(store);
    parts.experts = std::make_unique<LocalExperts>(backend, *parts.store, config.swiglu_limit);
    return parts;
  };
}

}  // namespace fathom
