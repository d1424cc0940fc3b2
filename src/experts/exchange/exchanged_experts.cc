#include "experts/exchange/exchanged_experts.h"

#include "distributed/local_batch.h"

namespace fathom {

Result<std::unique_ptr<ExpertLayer>> ExchangedExperts::Create(Backend& backend,
                                                              PlacedExperts& store,
                                                              const ModelConfig& config,
                                                              std::int64_t max_tokens) {
  const ModelRanks& ranks = store.ranks();
  Result<std::unique_ptr<ExpertExchange>> exchange =
      MakeExpertExchange(backend, *ranks.expert,
                         {.max_tokens = max_tokens,
                          .hidden = config.hidden_size,
                          .experts_per_token = config.num_experts_per_tok,
                          .n_experts = config.n_routed_experts,
                          .path = ranks.shard.expert_path,
                          .own_tokens = ranks.shard.n_data > 1});
  if (!exchange) {
    return MakeError(exchange.error().code, "exchange of experts of {} tokens: {}", max_tokens,
                     exchange.error().message);
  }
  return std::unique_ptr<ExpertLayer>(
      new ExchangedExperts(backend, store, config.swiglu_limit, *std::move(exchange)));
}

ExchangedExperts::ExchangedExperts(Backend& backend, PlacedExperts& store, float swiglu_limit,
                                   std::unique_ptr<ExpertExchange> exchange)
    : backend_(backend),
      store_(store),
      swiglu_limit_(swiglu_limit),
      exchange_(std::move(exchange)),
      tokens_of_rank_(static_cast<std::size_t>(store.ranks().shard.n_data)) {}

void ExchangedExperts::BeginBlocks(Pass pass, const BatchView& whole) {
  if (pass == Pass::kMain) {
    store_.BeginStep();
  }
  CountTokens(whole, store_.ranks().shard.data(), tokens_of_rank_);
}

Status ExchangedExperts::Run(const ExpertInput& input) {
  return exchange_->Run(
      {.x = input.x,
       .routing = input.routing,
       .positions = input.positions,
       .tokens_of_rank = tokens_of_rank_,
       .home = [&](std::int32_t position,
                   std::int32_t expert) { return store_.RankOf(input.block, position, expert); },
       .local =
           [&](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> rows) {
             return RunExperts(backend_, store_, input.block, x, routing, swiglu_limit_, rows);
           },
       .shared = input.shared,
       .rows = input.rows,
       .y = input.y});
}

}  // namespace fathom
