// What the ranks of a stage tell each other within a layer. The same calls on all of them; every
// result has the bits that a single rank would compute.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "kernels/backend.h"
#include "model/model_ranks.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom {

// Every rank has written its piece before; after it each has all of them. Empty ones do not travel.
using PieceOfRank = std::function<std::span<std::byte>(int rank)>;
Status SharePieces(Communicator& ranks, const PieceOfRank& piece_of);

// Who has row i; negative: nobody, it does not travel.
using RowOwner = std::function<int(std::int64_t row)>;

// Every row is known to its owner before and to all ranks after it. `packed` has as many rows.
Status ShareRows(Communicator& ranks, Matrix<Bf16> rows, const RowOwner& owner,
                 Matrix<Bf16> packed);

// out [t, n] = x times a matrix whose sums the ranks share. x [t, columns of this rank]. Uses
// a.part_input, a.parts and a.sum. `ranks` may be null if the matrix is not cut.
Status RowParallelLinear(Backend& backend, Communicator* ranks, Matrix<const Bf16> x,
                         const RowParallelWeight& weight, const Activations& a, Matrix<Bf16> out);

// out [t, d]: the row of each token, from the tensor rank that has it. table: this rank's rows of
// the vocabulary. Uses a.packed_rows.
Status EmbedTokens(Backend& backend, const ModelRanks& ranks, const BatchView& batch,
                   Matrix<const Bf16> table, const Activations& a, Matrix<Bf16> out);

// The residual streams before a stage's first layer, into a.streams: the embedding of the tokens,
// or what the stage before has sent.
Status BeginStreams(Backend& backend, const ModelRanks& ranks, const BatchView& batch,
                    Matrix<const Bf16> table, const Activations& a);
// To the next stage. The last one sends nothing.
Status SendStreams(const ModelRanks& ranks, Matrix<const Bf16> streams);

// out [n, d]: a data rank has those of the n rows that are its own, in order, in the first rows of
// out; after it every rank has all of them. Uses a.packed_rows.
Status ShareOwnRows(const ModelRanks& ranks, const RowOwner& owner, const Activations& a,
                    Matrix<Bf16> out);

}  // namespace fathom
