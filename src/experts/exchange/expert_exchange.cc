#include "experts/exchange/expert_exchange.h"

#include "base/check.h"
#include "experts/exchange/dispatched_experts.h"
#include "experts/exchange/gathered_experts.h"
#include "experts/exchange/sliced_experts.h"

namespace fathom {

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(Backend& backend, Communicator& ranks,
                                                           const ExchangeShape& shape) {
  if (shape.path == ExpertPath::kGather) return GatheredExperts::Create(backend, ranks, shape);
  Check(shape.hidden % kFp8Block == 0, "the fused exchange of experts: whole blocks of 128");
  return shape.own_tokens ? DispatchedExperts::Create(backend, ranks, shape)
                          : SlicedExperts::Create(backend, ranks, shape);
}

std::int64_t ExchangeBytes(const ExchangeShape& shape, int n_ranks) {
  if (shape.path == ExpertPath::kGather) return GatheredExperts::BytesFor(shape);
  return shape.own_tokens ? DispatchedExperts::BytesFor(shape, n_ranks)
                          : SlicedExperts::BytesFor(shape, n_ranks);
}

ExpertHome ContiguousHomes(std::int64_t n_experts, int n_ranks) {
  const auto per_rank = static_cast<std::int32_t>(n_experts / n_ranks);
  return [per_rank](std::int32_t, std::int32_t expert) { return expert / per_rank; };
}

}  // namespace fathom
