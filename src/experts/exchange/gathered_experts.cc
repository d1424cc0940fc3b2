#include "experts/exchange/gathered_experts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "distributed/rank_exchange.h"
#include "experts/exchange/expert_flow.h"

namespace fathom::experts {

GatheredExperts::Views GatheredExperts::LayOut(BufferLayout& memory, const ExchangeShape& shape,
                                               int /*n_ranks*/) {
  const std::int64_t t = shape.max_tokens;
  const std::int64_t k = shape.experts_per_token;
  const std::int64_t gathered = shape.own_tokens ? t : 0;
  return {.x = memory.Add<Bf16>(gathered, shape.hidden),
          .ids = memory.Add<std::int32_t>(gathered, k),
          .weights = memory.Add<float>(gathered, k),
          .rows = memory.Add<Bf16>(gathered * k, shape.hidden),
          .homes = memory.Add<std::int32_t>(t, k),
          .here = memory.Add<std::int32_t>(t, k),
          .packed = memory.Add<Bf16>(t * k, shape.hidden)};
}

GatheredExperts::GatheredExperts(Backend& backend, Communicator& ranks, const ExchangeShape& shape,
                                 LaidOutBuffer<Views> memory)
    : backend_(backend),
      ranks_(ranks),
      shape_(shape),
      memory_(std::move(memory)),
      views_(memory_.views) {}

Status GatheredExperts::Run(const ExpertWork& work) {
  const std::int64_t t = work.x.rows;
  const std::int64_t k = shape_.experts_per_token;
  std::int64_t n_all = t;
  std::int64_t first = 0;  // first row of this rank's tokens
  if (shape_.own_tokens) {
    const auto begin = work.tokens_of_rank.begin();
    n_all = std::accumulate(begin, work.tokens_of_rank.end(), std::int64_t{0});
    first = std::accumulate(begin, begin + ranks_.rank(), std::int64_t{0});
  }
  if (Status fits = CheckTokens(n_all, shape_.max_tokens); !fits) return fits;
  if (Status done = backend_.Synchronize(); !done) return done;
  FindHomes(work.routing.ids, work.positions, work.home, views_.homes.Rows(first, t));
  Tokens all = {.x = work.x, .routing = work.routing, .rows = work.rows};
  if (shape_.own_tokens) {
    Result<Tokens> gathered = GatherTokens(work, n_all, first);
    if (!gathered) return Unexpected(gathered.error());
    all = *gathered;
  }
  const Matrix<std::int32_t> here = views_.here.Rows(0, n_all);
  ChooseHere(all.routing.ids, views_.homes, ranks_.rank(), here);
  Status status = work.local(all.x, {.ids = here, .weights = all.routing.weights}, all.rows);
  const auto owner = [&](std::int64_t row) { return views_.homes.data[row]; };
  if (status) status = ShareRows(backend_, ranks_, all.rows, owner, views_.packed);
  if (status) status = work.shared();
  if (status) {
    backend_.CombineExperts(all.rows.Rows(first * k, t * k), work.y, work.y);
  }
  return status;
}

Result<GatheredExperts::Tokens> GatheredExperts::GatherTokens(const ExpertWork& work,
                                                              std::int64_t n_all,
                                                              std::int64_t first) {
  const std::int64_t t = work.x.rows;
  const std::int64_t k = shape_.experts_per_token;
  std::copy_n(work.x.data, t * work.x.cols, views_.x.Row(first));
  std::copy_n(work.routing.ids.data, t * k, views_.ids.Row(first));
  std::copy_n(work.routing.weights.data, t * k, views_.weights.Row(first));
  pieces_.clear();
  const auto add = [&](auto matrix) {
    std::int64_t row = 0;
    for (const std::int64_t n : work.tokens_of_rank) {
      pieces_.push_back(AsBytes(matrix.Rows(row, n)));
      row += n;
    }
  };
  add(views_.x);
  add(views_.ids);
  add(views_.weights);
  add(views_.homes);
  if (Status moved = ranks_.ShareInPlace(pieces_); !moved) return Unexpected(moved.error());
  return Tokens{
      .x = views_.x.Rows(0, n_all),
      .routing = {.ids = views_.ids.Rows(0, n_all), .weights = views_.weights.Rows(0, n_all)},
      .rows = views_.rows.Rows(0, n_all * k)};
}

}  // namespace fathom::experts
