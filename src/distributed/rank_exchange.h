// Sends rows and pieces of memory from each rank of a stage to all others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/float_types.h"
#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "kernels/backend.h"

namespace fathom::distributed {

// Each rank has written its own piece before the call, and has all pieces after it. Empty pieces
// are not sent. Called by all ranks.
using PieceOfRank = std::function<std::span<std::byte>(int rank)>;
Status SharePieces(Communicator& ranks, const PieceOfRank& piece_of);

// Returns the rank that has row i; negative: no rank, and the row is not sent.
using RowOwner = std::function<int(std::int64_t row)>;

// The places of the rows to send, in rank order: the rows of a rank are one piece.
class PackedRows {
 public:
  PackedRows(std::int64_t n_rows, int n_ranks, const RowOwner& owner);

  // Returns the packed row of row i; -1 if no rank has the row.
  std::int64_t PackedRow(std::int64_t i) const { return places_[static_cast<std::size_t>(i)]; }
  // Each rank has written its own rows of `packed`, which the host can access, before the call, and
  // has all rows after it. Called by all ranks.
  Status Share(Communicator& ranks, Matrix<Bf16> packed) const;

 private:
  std::vector<std::int64_t> places_;
  std::vector<std::int64_t> first_;  // packed row of each rank, and the end
};

// Copies each row from its owner to all ranks. `packed` is shared memory with as many rows. Called
// by all ranks.
Status ShareRows(Backend& backend, Communicator& ranks, Matrix<Bf16> rows, const RowOwner& owner,
                 Matrix<Bf16> packed);

}  // namespace fathom::distributed
