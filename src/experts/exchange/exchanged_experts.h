// ExchangedExperts: the ExpertLayer of ranks that divide the experts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "experts/exchange/expert_exchange.h"
#include "experts/store/placed_experts.h"
#include "model/expert_layer.h"

namespace fathom {

// Backend and store outlive it.
class ExchangedExperts : public ExpertLayer {
 public:
  // For batches of at most max_tokens. Errors: no memory; ranks that cannot be reached.
  static Result<std::unique_ptr<ExpertLayer>> Create(Backend& backend, PlacedExperts& store,
                                                     const ModelConfig& config,
                                                     std::int64_t max_tokens);

  void BeginBlocks(Pass pass, const BatchView& whole) override;
  Status Run(const ExpertInput& input) override;
  std::int64_t bytes() const override { return exchange_->bytes(); }

 private:
  ExchangedExperts(Backend& backend, PlacedExperts& store, float swiglu_limit,
                   std::unique_ptr<ExpertExchange> exchange);

  Backend& backend_;
  PlacedExperts& store_;
  float swiglu_limit_;
  std::unique_ptr<ExpertExchange> exchange_;
  std::vector<std::int64_t> tokens_of_rank_;  // of the pass, by data rank
};

}  // namespace fathom
