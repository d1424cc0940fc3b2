#include "experts/expert_parts.h"

#include <memory>
#include <utility>

#include "distributed/rank_tensor_parallel.h"
#include "experts/exchange/exchanged_experts.h"
#include "experts/streaming/rank_streamed_experts.h"
#include "experts/streaming/streamed_experts.h"
#include "model/expert_layer.h"
#include "model/model.h"
#include "model/tensor_parallel.h"

namespace fathom::experts {
namespace {

Status MakeTensor(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                  const ModelOptions& model, ModelParts& parts) {
  Result<std::unique_ptr<TensorParallel>> tensor =
      RankTensorParallel::Create(backend, config, ranks, model);
  if (!tensor) return Unexpected(tensor.error());
  parts.tensor = *std::move(tensor);
  return {};
}

Status MakePlacedExperts(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                         const ExpertOptions& experts, const ModelOptions& options,
                         ModelParts& parts) {
  if (ranks.shard.n_expert == 1) {
    parts.store = std::make_unique<MappedExperts>(backend, config, MakeStage(ranks.shard));
    parts.experts = std::make_unique<LocalExperts>(backend, *parts.store, config.swiglu_limit);
    return {};
  }
  Result<std::unique_ptr<PlacedExperts>> store =
      PlacedExperts::Create(backend, config, ranks, experts);
  if (!store) return Unexpected(store.error());
  return ExchangeExperts(backend, *std::move(store), ranks, config, options,
                         /*streamed=*/nullptr, parts);
}

// Makes the experts of a process that has all experts of its stage.
Status MakeWholeExperts(Backend& backend, const ModelConfig& config, const Stage& stage,
                        bool is_alone, const ModelOptions& model, const StreamingOptions& options,
                        ModelParts& parts) {
  Result<std::unique_ptr<StreamedExperts>> store =
      StreamedExperts::Create(backend, config, stage, model.max_batch_tokens, options);
  if (!store) return Unexpected(store.error());
  parts.store = *std::move(store);
  parts.experts =
      std::make_unique<LocalExperts>(backend, *parts.store, config.swiglu_limit, is_alone);
  return {};
}

Status MakeDividedExperts(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                          const BlockPlacements& placement, const ModelOptions& model,
                          const StreamingOptions& options, ModelParts& parts) {
  Result<std::unique_ptr<RankStreamedExperts>> store = RankStreamedExperts::Create(
      backend, config, ranks.shard, placement, model.max_batch_tokens, options);
  if (!store) return Unexpected(store.error());
  RankStreamedExperts* const streamed = store->get();
  return ExchangeExperts(backend, *std::move(store), ranks, config, model, streamed, parts);
}

}  // namespace

MakeModelParts ShardedParts(const ModelRanks* ranks, ExpertOptions options) {
  if (ranks == nullptr) return MakeLocalParts;
  return [ranks, experts = std::move(options)](Backend& backend, const ModelConfig& config,
                                               const ModelOptions& model) -> Result<ModelParts> {
    ModelParts parts;
    Status made = MakeTensor(backend, config, *ranks, model, parts);
    if (made) made = MakePlacedExperts(backend, config, *ranks, experts, model, parts);
    if (!made) return Unexpected(made.error());
    return parts;
  };
}

MakeModelParts StreamedParts(StreamingOptions options, const ModelRanks* ranks,
                             BlockPlacements placement) {
  return [options = std::move(options), ranks, placement = std::move(placement)](
             Backend& backend, const ModelConfig& config,
             const ModelOptions& model) -> Result<ModelParts> {
    ModelParts parts;
    Status made;
    if (ranks == nullptr) {
      const Stage stage = {.end_layer = config.num_hidden_layers};
      parts.tensor = std::make_unique<TensorParallel>(backend, stage);
      made = MakeWholeExperts(backend, config, stage, /*is_alone=*/true, model, options, parts);
    } else if (made = MakeTensor(backend, config, *ranks, model, parts); made) {
      made = ranks->shard.n_expert == 1
                 ? MakeWholeExperts(backend, config, MakeStage(ranks->shard), /*is_alone=*/false,
                                    model, options, parts)
                 : MakeDividedExperts(backend, config, *ranks, placement, model, options, parts);
    }
    if (!made) return Unexpected(made.error());
    return parts;
  };
}

}  // namespace fathom::experts
