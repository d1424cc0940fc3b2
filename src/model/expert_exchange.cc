#include "model/expert_exchange.h"

#include "base/check.h"
#include "model/dispatched_experts.h"
#include "model/gathered_experts.h"
#include "model/sliced_experts.h"

namespace fathom {

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(Backend& backend, Communicator& ranks,
                                                           const ExchangeShape& shape) {
  if (shape.path == ExpertPath::kGather) {
    return GatheredExperts::Create(backend, ranks, shape);
  }
  Check(shape.hidden % kFp8Block == 0, "the fused exchange of experts: whole blocks of 128");
  return shape.own_tokens ? DispatchedExperts::Create(backend, ranks, shape)
                          : SlicedExperts::Create(backend, ranks, shape);
}

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(Backend& backend,
                                                           const ModelRanks& ranks,
                                                           const ModelConfig& config,
                                                           std::int64_t max_tokens) {
  if (ranks.share.n_expert == 1) {
    return std::unique_ptr<ExpertExchange>();
  }
  Result<std::unique_ptr<ExpertExchange>> made =
      MakeExpertExchange(backend, *ranks.expert,
                         {.max_tokens = max_tokens,
                          .hidden = config.hidden_size,
                          .experts_per_token = config.num_experts_per_tok,
                          .n_experts = config.n_routed_experts,
                          .path = ranks.share.expert_path,
                          .own_tokens = ranks.share.n_data > 1});
  if (!made) {
    return MakeError(made.error().code, "exchange of experts of {} tokens: {}", max_tokens,
                     made.error().message);
  }
  return made;
}

ExpertHome ContiguousHomes(std::int64_t n_experts, int n_ranks) {
  const auto per_rank = static_cast<std::int32_t>(n_experts / n_ranks);
  return [per_rank](std::int32_t, std::int32_t expert) { return expert / per_rank; };
}

}  // namespace fathom
