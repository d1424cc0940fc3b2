#include "experts/exchange/expert_exchange.h"

#include <utility>

#include "base/check.h"
#include "experts/exchange/dispatched_experts.h"
#include "experts/exchange/gathered_experts.h"
#include "experts/exchange/sliced_experts.h"

namespace fathom::experts {
namespace {

template <class Experts>
std::int64_t BytesOf(const ExchangeShape& shape, int n_ranks) {
  return LayoutBytes([&](BufferLayout& memory) { return Experts::LayOut(memory, shape, n_ranks); });
}

// Allocates the buffers for `ranks`, the arguments of the constructor.
template <class Experts, class... Ranks>
Result<std::unique_ptr<ExpertExchange>> Make(Backend& backend, const ExchangeShape& shape,
                                             int n_ranks, Ranks&&... ranks) {
  auto buffers = AllocateLayout(
      backend, [&](BufferLayout& memory) { return Experts::LayOut(memory, shape, n_ranks); },
      MemoryKind::kShared);
  if (!buffers) return Unexpected(buffers.error());
  return std::make_unique<Experts>(backend, std::forward<Ranks>(ranks)..., shape,
                                   *std::move(buffers));
}

}  // namespace

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(Backend& backend, Communicator& ranks,
                                                           const ExchangeShape& shape) {
  const int n = ranks.size();
  if (shape.path == ExpertPath::kGather) return Make<GatheredExperts>(backend, shape, n, ranks);
  Check(shape.hidden % kFp8Block == 0, "the fused exchange of experts: whole blocks of 128");
  if (shape.own_tokens) return Make<DispatchedExperts>(backend, shape, n, ranks);
  Result<SlicedExperts::Ranks> row_ranks = ranks.Split(0, ranks.rank());
  if (!row_ranks) return Unexpected(row_ranks.error());
  Result<SlicedExperts::Ranks> sum_ranks = ranks.Split(0, ranks.rank());
  if (!sum_ranks) return Unexpected(sum_ranks.error());
  return Make<SlicedExperts>(backend, shape, n, *std::move(row_ranks), *std::move(sum_ranks));
}

std::int64_t ExchangeBytes(const ExchangeShape& shape, int n_ranks) {
  if (shape.path == ExpertPath::kGather) return BytesOf<GatheredExperts>(shape, n_ranks);
  return shape.own_tokens ? BytesOf<DispatchedExperts>(shape, n_ranks)
                          : BytesOf<SlicedExperts>(shape, n_ranks);
}

ExpertHome ContiguousHomes(std::int64_t n_experts, int n_ranks) {
  const auto per_rank = static_cast<std::int32_t>(n_experts / n_ranks);
  return [per_rank](std::int32_t, std::int32_t expert) { return expert / per_rank; };
}

}  // namespace fathom::experts
