#include "experts/exchange/exchanged_experts.h"

#include <utility>

#include "distributed/local_batch.h"
#include "kernels/staging.h"

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
  Result<LaidOutBuffer<Staging>> staging = AllocateLayout(
      backend,
      [&](BufferLayout& memory) {
        return LayOut(memory, config, backend.OnHost() ? 0 : max_tokens);
      },
      MemoryKind::kShared);
  if (!staging) return Unexpected(staging.error());
  return std::unique_ptr<ExpertLayer>(new ExchangedExperts(
      backend, store, config.swiglu_limit, *std::move(exchange), *std::move(staging)));
}

ExchangedExperts::Staging ExchangedExperts::LayOut(BufferLayout& memory, const ModelConfig& config,
                                                   std::int64_t t) {
  const std::int64_t k = config.num_experts_per_tok;
  return {.x = memory.Add<Bf16>(t, config.hidden_size),
          .ids = memory.Add<std::int32_t>(t, k),
          .weights = memory.Add<float>(t, k),
          .rows = memory.Add<Bf16>(t * k, config.hidden_size),
          .y = memory.Add<Bf16>(t, config.hidden_size)};
}

ExchangedExperts::ExchangedExperts(Backend& backend, PlacedExperts& store, float swiglu_limit,
                                   std::unique_ptr<ExpertExchange> exchange,
                                   LaidOutBuffer<Staging> staging)
    : backend_(backend),
      store_(store),
      swiglu_limit_(swiglu_limit),
      exchange_(std::move(exchange)),
      staging_(std::move(staging)),
      tokens_of_rank_(static_cast<std::size_t>(store.ranks().shard.n_data)) {}

void ExchangedExperts::BeginBlocks(Pass pass, const BatchView& whole) {
  if (pass == Pass::kMain) {
    store_.BeginStep();
  }
  CountTokens(whole, store_.ranks().shard.data(), tokens_of_rank_);
}

Status ExchangedExperts::Run(const ExpertInput& input) {
  const Staging& staging = staging_.views;
  const Matrix<Bf16> y = backend_.OnHost() ? input.y : staging.y.Rows(0, input.y.rows);
  Status ran = exchange_->Run(
      {.x = StageForHost(backend_, input.x, staging.x),
       .routing = {.ids = StageForHost(backend_, input.routing.ids, staging.ids),
                   .weights = StageForHost(backend_, input.routing.weights, staging.weights)},
       .positions = input.positions,
       .tokens_of_rank = tokens_of_rank_,
       .home = [&](std::int32_t position,
                   std::int32_t expert) { return store_.RankOf(input.block, position, expert); },
       .local =
           [&](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> rows) {
             return RunExperts(backend_, store_, input.block, x, routing, swiglu_limit_, rows);
           },
       .shared =
           [&] {
             Status computed = input.shared();
             if (computed) StageForHost(backend_, input.y, staging.y);
             return computed;
           },
       .rows = backend_.OnHost() ? input.rows : staging.rows.Rows(0, input.rows.rows),
       .y = y});
  if (ran) UnstageFromHost(backend_, y, input.y);
  return ran;
}

}  // namespace fathom
