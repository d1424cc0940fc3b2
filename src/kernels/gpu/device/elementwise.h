// Arguments of the kernels in elementwise.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/memory.h"

namespace fathom::kernels::gpu {

// out [t, c * d]: the row of each token, c times. Runs a thread per number.
struct EmbedArguments {
  const Token* tokens = nullptr;  // [t]; null: row i of the table is the row of token i
  Matrix<const Bf16> table;
  Matrix<Bf16> out;
  std::uint64_t* fault = nullptr;
};

// Runs a thread per number.
struct SwiGluArguments {
  const Bf16* gate = nullptr;
  const Bf16* up = nullptr;
  float clamp = 0.0f;
  Bf16* out = nullptr;
  std::int64_t n = 0;
};

// Copies pieces: runs `splits` blocks for each.
struct CopyPiecesArguments {
  const PieceCopy* pieces = nullptr;
  std::int64_t splits = 1;
};

// Writes the entries of block tables, in their order: runs one thread.
struct ChangeTablesArguments {
  const TableChange* changes = nullptr;
  std::int64_t n = 0;
};

}  // namespace fathom::kernels::gpu
