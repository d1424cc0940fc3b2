// Rows and pieces of memory that the ranks of a stage make known to each other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/float_types.h"
#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"

namespace fathom {

// Each rank has written its own piece before the call, and has all pieces after it. Empty pieces
// are not sent. Called by all ranks; so is ShareRows.
using PieceOfRank = std::function<std::span<std::byte>(int rank)>;
Status SharePieces(Communicator& ranks, const PieceOfRank& piece_of);

// The rank that has row i; negative: no rank, and the row is not sent.
using RowOwner = std::function<int(std::int64_t row)>;

// Each row is known to its owner before the call and to all ranks after it. `packed` is scratch
// with as many rows.
Status ShareRows(Communicator& ranks, Matrix<Bf16> rows, const RowOwner& owner,
                 Matrix<Bf16> packed);

}  // namespace fathom
