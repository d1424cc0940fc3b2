// The bytes of matrices and weights, for profiles.
#pragma once

#include <cstdint>
#include <iterator>

#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"

namespace fathom {

template <class T>
std::int64_t SizeInBytes(const Matrix<T>& matrix) {
  return matrix.data == nullptr ? 0
                                : matrix.rows * matrix.cols * static_cast<std::int64_t>(sizeof(T));
}
inline std::int64_t SizeInBytes(const RopeRows& rope) {
  return SizeInBytes(rope.cos) + SizeInBytes(rope.sin);
}
// Returns 0 for weights that the backend does not have.
inline std::int64_t SizeInBytes(const Weight& w) {
  return w.data == nullptr ? 0 : std::ssize(w.Bytes()) + std::ssize(w.ScaleBytes());
}
// Adds the bytes of the matrices and weights, each once.
template <class... Part>
std::int64_t SumOfSizes(const Part&... parts) {
  return (SizeInBytes(parts) + ... + 0);
}

}  // namespace fathom
