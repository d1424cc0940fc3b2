// ExchangedExperts: the ExpertLayer of a rank when several ranks divide the experts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "experts/exchange/expert_exchange.h"
#include "experts/exchange/shared_failures.h"
#include "experts/streaming/rank_streamed_experts.h"
#include "kernels/laid_out_buffer.h"
#include "model/expert_layer.h"
#include "model/model.h"
#include "model/model_parts.h"

namespace fathom::experts {

// Backend and store must outlive this object.
class ExchangedExperts : public ExpertLayer {
 public:
  // For batches of at most max_tokens. streamed: the store, if it streams; else nullptr. `homes`
  // returns the rank that computes an expert for a token, and may use the store. Errors: no memory;
  // ranks that cannot be reached.
  static Result<std::unique_ptr<ExpertLayer>> Create(Backend& backend, ExpertStore& store,
                                                     const ModelRanks& ranks, ExpertHomes homes,
                                                     const ModelConfig& config,
                                                     std::int64_t max_tokens,
                                                     RankStreamedExperts* streamed);

  // Returns the bytes that Create allocates on a backend whose memory the host can access, for
  // experts that are read from disk.
  static std::int64_t BytesFor(const ModelConfig& config, const ModelShard& shard,
                               std::int64_t max_tokens);

  Status Run(ForwardPass& pass, const ExpertInput& input) override;
  // Single sequences fail only in a model of one stage.
  Status ShareFailures(ForwardPass& pass) override;
  std::int64_t bytes() const override { return exchange_->bytes() + staging_.bytes(); }

 private:
  // The parts of a block's input that the host sends, and of the result that it receives
  // (kernels/staging.h). Empty if the host can access all memory.
  struct Staging {
    Matrix<Bf16> x;            // [t, d]
    Matrix<std::int32_t> ids;  // [t, k]
    Matrix<float> weights;     // [t, k]
    Matrix<Bf16> rows;         // [t * k, d]
    Matrix<Bf16> y;            // [t, d]
  };
  static Staging LayOut(BufferLayout& memory, const ModelConfig& config, std::int64_t t);
  ExchangedExperts(Backend& backend, ExpertStore& store, const ModelRanks& ranks, ExpertHomes homes,
                   float swiglu_limit, std::unique_ptr<ExpertExchange> exchange,
                   LaidOutBuffer<Staging> staging, RankStreamedExperts* streamed);

  Status RunExchange(const ExpertInput& input, ExpertWork work);

  Backend& backend_;
  ExpertStore& store_;
  ModelRanks ranks_;
  ExpertHomes homes_;
  float swiglu_limit_;
  std::unique_ptr<ExpertExchange> exchange_;
  LaidOutBuffer<Staging> staging_;
  std::vector<std::int64_t> tokens_of_rank_;  // scratch of Run: tokens of the pass by data rank
  SharedFailures failures_;                   // for a store that streams
  RankStreamedExperts* streamed_;             // the store that streams, or null
};

// Puts the store and its exchange into the parts of a model. store.FindRank: the rank that computes
// an expert. Errors: as for ExchangedExperts::Create.
template <class Store>
Status ExchangeExperts(Backend& backend, std::unique_ptr<Store> store, const ModelRanks& ranks,
                       const ModelConfig& config, const ModelOptions& model,
                       RankStreamedExperts* streamed, ModelParts& parts) {
  const auto homes = [&homes_of = *store](std::int64_t block, std::int32_t position,
                                          std::int32_t expert) {
    return homes_of.FindRank(block, position, expert);
  };
  Result<std::unique_ptr<ExpertLayer>> layer = ExchangedExperts::Create(
      backend, *store, ranks, homes, config, model.max_batch_tokens, streamed);
  if (!layer) return Unexpected(layer.error());
  parts.store = std::move(store);
  parts.experts = *std::move(layer);
  parts.notes_experts = streamed != nullptr;
  return {};
}

}  // namespace fathom::experts
