// Copies rows of a backend to the host and back, for exchanges between ranks.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/tensor.h"
#include "kernels/backend.h"

namespace fathom::kernels {

// Returns rows that the host may read and write once it has waited: `rows` itself where the host
// can access the memory of the backend, else the first rows of `shared` (shared memory), with the
// numbers of `rows`.
template <class T>
Matrix<T> StageForHost(Backend& backend, Matrix<T> rows, Matrix<std::remove_const_t<T>> shared) {
  if (backend.OnHost()) return rows;
  const PieceCopy copy = {shared.data, rows.data,
                          rows.rows * rows.cols * static_cast<std::int64_t>(sizeof(T))};
  backend.CopyPieces({&copy, 1});
  return {shared.data, rows.rows, rows.cols};
}

// Copies the numbers of `staged`, which StageForHost returned for `rows`, back to `rows`.
template <class T>
void UnstageFromHost(Backend& backend, Matrix<T> staged, Matrix<T> rows) {
  const PieceCopy copy = {rows.data, staged.data,
                          rows.rows * rows.cols * static_cast<std::int64_t>(sizeof(T))};
  backend.CopyPieces({&copy, 1});
}

}  // namespace fathom::kernels
