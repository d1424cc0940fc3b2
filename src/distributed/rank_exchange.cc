#include "distributed/rank_exchange.h"

namespace fathom::distributed {

Status SharePieces(Communicator& ranks, const PieceOfRank& piece_of) {
  std::vector<std::span<std::byte>> pieces;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    pieces.push_back(piece_of(rank));
  }
  return ranks.ShareInPlace(pieces);
}

PackedRows::PackedRows(std::int64_t n_rows, int n_ranks, const RowOwner& owner)
    : places_(static_cast<std::size_t>(n_rows)), first_(static_cast<std::size_t>(n_ranks) + 1, 0) {
  for (std::int64_t i = 0; i < n_rows; ++i) {
    if (owner(i) >= 0) {
      ++first_[static_cast<std::size_t>(owner(i)) + 1];
    }
  }
  for (std::size_t r = 1; r < first_.size(); ++r) {
    first_[r] += first_[r - 1];
  }
  std::vector<std::int64_t> next(first_.begin(), first_.end() - 1);
  for (std::int64_t i = 0; i < n_rows; ++i) {
    places_[static_cast<std::size_t>(i)] =
        owner(i) < 0 ? -1 : next[static_cast<std::size_t>(owner(i))]++;
  }
}

Status PackedRows::Share(Communicator& ranks, Matrix<Bf16> packed) const {
  return SharePieces(ranks, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return AsBytes(packed.Rows(first_[r], first_[r + 1] - first_[r]));
  });
}

Status ShareRows(Backend& backend, Communicator& ranks, Matrix<Bf16> rows, const RowOwner& owner,
                 Matrix<Bf16> packed) {
  const PackedRows places(rows.rows, ranks.size(), owner);
  const std::int64_t row_bytes = rows.cols * static_cast<std::int64_t>(sizeof(Bf16));
  std::vector<PieceCopy> to_packed;
  std::vector<PieceCopy> from_packed;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    if (owner(i) == ranks.rank()) {
      to_packed.push_back({packed.Row(places.PackedRow(i)), rows.Row(i), row_bytes});
    } else if (owner(i) >= 0) {
      from_packed.push_back({rows.Row(i), packed.Row(places.PackedRow(i)), row_bytes});
    }
  }
  backend.CopyPieces(to_packed);
  Status status = backend.Synchronize();
  if (status) status = places.Share(ranks, packed);
  if (status) backend.CopyPieces(from_packed);
  return status;
}

}  // namespace fathom::distributed
