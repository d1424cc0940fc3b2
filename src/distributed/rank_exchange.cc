#include "distributed/rank_exchange.h"

#include <cstring>
#include <vector>

namespace fathom {

Status SharePieces(Communicator& ranks, const PieceOfRank& piece_of) {
  std::vector<std::span<std::byte>> pieces;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    pieces.push_back(piece_of(rank));
  }
  return ranks.ShareInPlace(pieces);
}

Status ShareRows(Communicator& ranks, Matrix<Bf16> rows, const RowOwner& owner,
                 Matrix<Bf16> packed) {
  // In rank order, so that what one rank has is one piece.
  std::vector<std::int64_t> first(static_cast<std::size_t>(ranks.size()) + 1, 0);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    if (owner(i) >= 0) {
      ++first[static_cast<std::size_t>(owner(i)) + 1];
    }
  }
  for (std::size_t r = 1; r < first.size(); ++r) {
    first[r] += first[r - 1];
  }
  const auto row_bytes = static_cast<std::size_t>(rows.cols) * sizeof(Bf16);
  std::vector<std::int64_t> next(first.begin(), first.end() - 1);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    if (owner(i) == ranks.rank()) {
      std::memcpy(packed.Row(next[static_cast<std::size_t>(ranks.rank())]++), rows.Row(i),
                  row_bytes);
    }
  }
  const auto piece_of = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return BytesOf(packed.Rows(first[r], first[r + 1] - first[r]));
  };
  if (Status moved = SharePieces(ranks, piece_of); !moved) {
    return moved;
  }
  next.assign(first.begin(), first.end() - 1);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const int from = owner(i);
    if (from >= 0 && from != ranks.rank()) {
      std::memcpy(rows.Row(i), packed.Row(next[static_cast<std::size_t>(from)]++), row_bytes);
    }
  }
  return {};
}

}  // namespace fathom
