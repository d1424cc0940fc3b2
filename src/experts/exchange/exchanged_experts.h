// ExchangedExperts: the ExpertLayer of ranks that divide the experts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "experts/exchange/expert_exchange.h"
#include "experts/store/placed_experts.h"
#include "kernels/laid_out_buffer.h"
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
  std::int64_t bytes() const override { return exchange_->bytes() + staging_.bytes(); }

 private:
  // The parts of a block's input that the host sends, and of the result that it receives
  // (kernels/staging.h). Empty if the host reaches all memory.
  struct Staging {
    Matrix<Bf16> x;            // [t, d]
    Matrix<std::int32_t> ids;  // [t, k]
    Matrix<float> weights;     // [t, k]
    Matrix<Bf16> rows;         // [t * k, d]
    Matrix<Bf16> y;            // [t, d]
  };
  static Staging LayOut(BufferLayout& memory, const ModelConfig& config, std::int64_t t);
  ExchangedExperts(Backend& backend, PlacedExperts& store, float swiglu_limit,
                   std::unique_ptr<ExpertExchange> exchange, LaidOutBuffer<Staging> staging);

  Backend& backend_;
  PlacedExperts& store_;
  float swiglu_limit_;
  std::unique_ptr<ExpertExchange> exchange_;
  LaidOutBuffer<Staging> staging_;
  std::vector<std::int64_t> tokens_of_rank_;  // in the pass, by data rank
};

}  // namespace fathom
