#include "model/rank_exchange.h"

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

Status RowParallelLinear(Backend& backend, Communicator* ranks, Matrix<const Bf16> x,
                         const RowParallelWeight& weight, const Activations& a, Matrix<Bf16> out) {
  if (weight.whole.data != nullptr) {
    backend.Linear(x, weight.whole, out);
    return {};
  }
  const std::int64_t t = out.rows;
  const std::int64_t n = out.cols;
  // Part after part, [t, n] each.
  const Matrix<float> parts = {a.parts.data, std::ssize(weight.parts), t * n};
  backend.Synchronize();
  for (std::int64_t p = 0; p < parts.rows; ++p) {
    const Weight& part = weight.parts[static_cast<std::size_t>(p)];
    const Matrix<Bf16> input = {a.part_input.data, t, part.k};
    for (std::int64_t row = 0; row < t; ++row) {
      std::memcpy(input.Row(row), x.Row(row) + p * part.k,
                  static_cast<std::size_t>(part.k) * sizeof(Bf16));
    }
    backend.Linear(input, part, Matrix<float>{parts.Row(p), t, n});
    backend.Synchronize();
  }
  const std::span<float> sum(a.sum.data, static_cast<std::size_t>(t * n));
  if (Status added = ranks->AllReduceParts(parts, weight.whole.k_parts, sum); !added) {
    return added;
  }
  for (std::int64_t i = 0; i < t * n; ++i) {
    out.data[i] = ToBf16(sum[static_cast<std::size_t>(i)]);
  }
  return {};
}

Status EmbedTokens(Backend& backend, const ModelRanks& ranks, const BatchView& batch,
                   Matrix<const Bf16> table, const Activations& a, Matrix<Bf16> out) {
  if (ranks.share.n_tensor == 1) {
    backend.Embed(batch, table, out);
    return {};
  }
  const auto token = [&](std::int64_t row) {
    return static_cast<std::int64_t>(batch.tokens[static_cast<std::size_t>(row)]);
  };
  const auto owner = [&](std::int64_t row) { return static_cast<int>(token(row) / table.rows); };
  for (std::int64_t row = 0; row < out.rows; ++row) {
    if (owner(row) == ranks.share.tensor_rank) {
      std::memcpy(out.Row(row), table.Row(token(row) % table.rows),
                  static_cast<std::size_t>(out.cols) * sizeof(Bf16));
    }
  }
  return ShareRows(*ranks.tensor, out, owner, a.packed_rows);
}

Status ShareOwnRows(const ModelRanks& ranks, const RowOwner& owner, const Activations& a,
                    Matrix<Bf16> out) {
  // From the last to the first: a row never moves up.
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < out.rows; ++i) {
    left += owner(i) == ranks.share.data_rank ? 1 : 0;
  }
  for (std::int64_t i = out.rows; i-- > 0;) {
    if (owner(i) == ranks.share.data_rank && --left != i) {
      std::memcpy(out.Row(i), out.Row(left), static_cast<std::size_t>(out.cols) * sizeof(Bf16));
    }
  }
  return ShareRows(*ranks.expert, out, owner, a.packed_rows);
}

Status BeginStreams(Backend& backend, const ModelRanks& ranks, const BatchView& batch,
                    Matrix<const Bf16> table, const Activations& a) {
  if (!ranks.share.is_first_stage()) {
    return ranks.stages->Receive(ranks.share.stage - 1, BytesOf(a.streams));
  }
  if (ranks.share.n_tensor == 1) {
    backend.Embed(batch, table, a.streams);
    return {};
  }
  if (Status status = EmbedTokens(backend, ranks, batch, table, a, a.u); !status) {
    return status;
  }
  for (std::int64_t i = 0; i < a.streams.rows * kStreams; ++i) {
    std::memcpy(a.streams.data + i * a.u.cols, a.u.Row(i / kStreams),
                static_cast<std::size_t>(a.u.cols) * sizeof(Bf16));
  }
  return {};
}

Status SendStreams(const ModelRanks& ranks, Matrix<const Bf16> streams) {
  if (ranks.share.is_last_stage()) {
    return {};
  }
  return ranks.stages->Send(ranks.share.stage + 1, BytesOf(streams));
}

}  // namespace fathom
