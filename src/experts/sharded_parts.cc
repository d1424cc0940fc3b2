#include "experts/sharded_parts.h"

#include <utility>

#include "distributed/rank_tensor_parallel.h"
#include "experts/exchange/exchanged_experts.h"

namespace fathom {
namespace {

Status MakeExperts(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                   const ExpertOptions& experts, const ModelOptions& options, ModelParts& parts) {
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

}  // namespace

MakeModelParts ShardedParts(const ModelRanks* ranks, ExpertOptions options) {
  if (ranks == nullptr) return MakeLocalParts;
  return [ranks, experts = std::move(options)](Backend& backend, const ModelConfig& config,
                                               const ModelOptions& model) -> Result<ModelParts> {
    ModelParts parts;
    Result<std::unique_ptr<TensorParallel>> tensor =
        RankTensorParallel::Create(backend, config, *ranks, model);
    if (!tensor) return Unexpected(tensor.error());
    parts.tensor = *std::move(tensor);
    if (Status made = MakeExperts(backend, config, *ranks, experts, model, parts); !made) {
      return Unexpected(made.error());
    }
    return parts;
  };
}

}  // namespace fathom
