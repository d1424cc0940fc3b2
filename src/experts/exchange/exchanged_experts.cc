#include "experts/exchange/exchanged_experts.h"

#include <utility>

#include "kernels/staging.h"

namespace fathom::experts {
namespace {

ExchangeShape MakeExchangeShape(const ModelConfig& config, const ModelShard& shard,
                                std::int64_t max_tokens, bool reads_experts) {
  return {.max_tokens = max_tokens,
          .hidden = config.hidden_size,
          .experts_per_token = config.num_experts_per_tok,
          .n_experts = config.n_routed_experts,
          .path = shard.expert_path,
          .own_tokens = shard.n_data > 1,
          .in_one_call = reads_experts};
}

}  // namespace

Result<std::unique_ptr<ExpertLayer>> ExchangedExperts::Create(
    Backend& backend, ExpertStore& store, const ModelRanks& ranks, ExpertHomes homes,
    const ModelConfig& config, std::int64_t max_tokens, RankStreamedExperts* streamed) {
  Result<std::unique_ptr<ExpertExchange>> exchange =
      MakeExpertExchange(backend, *ranks.expert,
                         MakeExchangeShape(config, ranks.shard, max_tokens, store.ReadsExperts()));
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
  return std::unique_ptr<ExpertLayer>(
      new ExchangedExperts(backend, store, ranks, std::move(homes), config.swiglu_limit,
                           *std::move(exchange), *std::move(staging), streamed));
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

ExchangedExperts::ExchangedExperts(Backend& backend, ExpertStore& store, const ModelRanks& ranks,
                                   ExpertHomes homes, float swiglu_limit,
                                   std::unique_ptr<ExpertExchange> exchange,
                                   LaidOutBuffer<Staging> staging, RankStreamedExperts* streamed)
    : backend_(backend),
      store_(store),
      ranks_(ranks),
      homes_(std::move(homes)),
      swiglu_limit_(swiglu_limit),
      exchange_(std::move(exchange)),
      staging_(std::move(staging)),
      tokens_of_rank_(static_cast<std::size_t>(ranks.shard.n_data)),
      failures_(*ranks.expert, ranks.shard.first_layer, ranks.shard.end_layer),
      streamed_(streamed) {}

std::int64_t ExchangedExperts::BytesFor(const ModelConfig& config, const ModelShard& shard,
                                        std::int64_t max_tokens) {
  return ExchangeBytes(MakeExchangeShape(config, shard, max_tokens, /*reads_experts=*/true),
                       static_cast<int>(shard.n_expert));
}

Status ExchangedExperts::ShareFailures(ForwardPass& pass) {
  if (streamed_ == nullptr) return {};
  const Status shared = failures_.Share(pass, homes_, streamed_->counts());
  streamed_->NoteOthers(failures_.counts_of_others());
  // The stages after this one compute the sequences already.
  if (const auto failures = pass.failed.failures();
      shared && !failures.empty() && ranks_.shard.n_stages > 1) {
    return Unexpected(failures.front().error);
  }
  return shared;
}

Status ExchangedExperts::Run(ForwardPass& pass, const ExpertInput& input) {
  CountTokens(pass.whole, ranks_.shard.data(), tokens_of_rank_);
  const Staging& staging = staging_.views;
  const Matrix<Bf16> y = backend_.OnHost() ? input.y : staging.y.Rows(0, input.y.rows);
  const ExpertWork work = {
      .x = StageForHost(backend_, input.x, staging.x),
      .routing = {.ids = StageForHost(backend_, input.routing.ids, staging.ids),
                  .weights = StageForHost(backend_, input.routing.weights, staging.weights)},
      .positions = input.positions,
      .tokens_of_rank = tokens_of_rank_,
      .home = [&](std::int32_t position,
                  std::int32_t expert) { return homes_(input.block, position, expert); },
      .rows = backend_.OnHost() ? input.rows : staging.rows.Rows(0, input.rows.rows),
      .y = y};
  if (streamed_ != nullptr && pass.kind == Pass::kMain) {
    failures_.Note(pass, input.block, work.routing.ids);
  }
  Status ran = RunExchange(input, work);
  if (ran) UnstageFromHost(backend_, y, input.y);
  return ran;
}

// The shared expert runs while the first experts are read from disk, if any are.
Status ExchangedExperts::RunExchange(const ExpertInput& input, ExpertWork work) {
  bool has_shared = false;
  work.shared = [&] {
    if (std::exchange(has_shared, true)) return Status();
    Status computed = input.shared();
    if (computed) StageForHost(backend_, input.y, staging_.views.y);
    return computed;
  };
  const auto meanwhile = [&] { return store_.ReadsExperts() ? work.shared() : Status(); };
  work.local = [&](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> rows) {
    return RunExperts(backend_, store_, input.block, x, routing, swiglu_limit_, rows, meanwhile);
  };
  return exchange_->Run(work);
}

}  // namespace fathom::experts
