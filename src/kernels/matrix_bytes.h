// The bytes of matrices and weights, and the cached rows that a query reads, for profiles and
// costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"

namespace fathom::kernels {

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

// The cached rows of a layer that a query reads.
struct ReadRows {
  std::int64_t window = 0;
  std::int64_t compressed = 0;
  std::int64_t scored = 0;  // index rows: all visible ones, if there are more than it chooses
};

// most_chosen: the compressed rows that a query may choose; 0: it reads all visible ones.
inline ReadRows CountReadRows(std::int64_t position, std::int64_t sliding_window, int ratio,
                              std::int64_t most_chosen) {
  const std::int64_t visible = VisibleRows(position, ratio);
  const bool chooses = most_chosen > 0 && visible > most_chosen;
  return {.window = std::min(position + 1, sliding_window),
          .compressed = chooses ? most_chosen : visible,
          .scored = chooses ? visible : 0};
}

}  // namespace fathom::kernels
