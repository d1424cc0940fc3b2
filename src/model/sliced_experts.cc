#include "model/sliced_experts.h"

#include <utility>
#include <vector>

namespace fathom {

SlicedExperts::Views SlicedExperts::Carve(Carver& carver, const ExchangeShape& shape, int n_ranks) {
  const std::int64_t t = shape.max_tokens;
  const std::int64_t k = shape.experts_per_token;
  const std::int64_t slice = (t + n_ranks - 1) / n_ranks;
  return {.homes = carver.Take<std::int32_t>(t, k),
          .ids = carver.Take<std::int32_t>(t, k),
          .sent = carver.Take<Bf16>(t * k, shape.hidden),
          .received = carver.Take<Bf16>(slice * k, shape.hidden)};
}

Result<std::unique_ptr<ExpertExchange>> SlicedExperts::Create(Backend& backend, Communicator& ranks,
                                                              const ExchangeShape& shape) {
  Result<Carved<Views>> memory =
      AllocateCarved(backend, [&](Carver& carver) { return Carve(carver, shape, ranks.size()); });
  if (!memory) {
    return Unexpected(memory.error());
  }
  return std::unique_ptr<ExpertExchange>(
      new SlicedExperts(backend, ranks, shape, *std::move(memory)));
}

SlicedExperts::SlicedExperts(Backend& backend, Communicator& ranks, const ExchangeShape& shape,
                             Carved<Views> memory)
    : backend_(backend),
      ranks_(ranks),
      shape_(shape),
      memory_(std::move(memory)),
      views_(memory_.views),
      outbox_(ranks),
      sender_(outbox_, views_.sent),
      receiver_(ranks, views_.received) {}

Status SlicedExperts::Run(const ExpertWork& work) {
  const std::int64_t t = work.x.rows;
  const std::int64_t k = work.routing.ids.cols;
  if (Status fits = CheckTokens(t, shape_.max_tokens); !fits) {
    return fits;
  }
  backend_.Synchronize();
  const Matrix<std::int32_t> homes = views_.homes.Rows(0, t);
  FindHomes(work.routing.ids, work.positions, work.home, homes);
  const int n_chunks = ExpertChunks(t, k, ranks_.size());
  const Piece mine = SliceOf(t, ranks_.rank());
  const Matrix<Bf16> slice_rows = work.rows.Rows(mine.first * k, mine.count * k);
  Status status = receiver_.Begin(work.routing.ids.Rows(mine.first, mine.count),
                                  homes.Rows(mine.first, mine.count), n_chunks, slice_rows);
  if (status) status = Compute(work, homes, n_chunks);
  if (status) status = work.shared();
  if (status) status = receiver_.Finish();
  if (!status) {
    return status;
  }
  const Matrix<Bf16> slice = work.y.Rows(mine.first, mine.count);
  backend_.CombineExperts(slice_rows, slice, slice);
  backend_.Synchronize();
  status = ShareSums(work.y);
  return status ? outbox_.Finish() : status;
}

// Chunk after chunk for all tokens; what others own leaves at once.
Status SlicedExperts::Compute(const ExpertWork& work, Matrix<const std::int32_t> homes,
                              int n_chunks) {
  const std::int64_t t = work.x.rows;
  const Matrix<std::int32_t> ids = views_.ids.Rows(0, t);
  sender_.Begin();
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    ChooseHere(work.routing.ids, homes, {ranks_.rank(), chunk, n_chunks}, ids);
    Status status = work.local(work.x, {.ids = ids, .weights = work.routing.weights}, work.rows);
    backend_.Synchronize();
    // Not all to the same rank first.
    for (int step = 1; status && step < ranks_.size(); ++step) {
      const int to = (ranks_.rank() + step) % ranks_.size();
      const Piece slice = SliceOf(t, to);
      status = sender_.Send(to, ids.Rows(slice.first, slice.count),
                            work.rows.Rows(slice.first * ids.cols, slice.count * ids.cols));
    }
    if (status) status = receiver_.Poll();
    if (!status) {
      return status;
    }
  }
  return {};
}

Status SlicedExperts::ShareSums(Matrix<Bf16> y) {
  std::vector<std::span<std::byte>> pieces;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Piece slice = SliceOf(y.rows, rank);
    pieces.push_back(BytesOf(y.Rows(slice.first, slice.count)));
  }
  return ranks_.ShareInPlace(pieces);
}

}  // namespace fathom
