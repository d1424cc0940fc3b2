// Chain products of many rows by many columns (docs/numerics.md 1), shared by the scores of
// attention and the gates of the hyper-connections.
#pragma once

#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// Rows that share a load of columns: with two vectors of columns, as many sums as registers hold.
constexpr int kGroupRows = kParts == 1 ? 8 : 6;

template <int kCount>
struct RowCount {
  static constexpr int value = kCount;
};

// Calls body(RowCount<n>, row) for groups of n of the `count` rows, as large as registers allow.
template <class Body>
void ForRowGroups(int64_t count, const Body& body) {
  int64_t row = 0;
  for (; row + kGroupRows <= count; row += kGroupRows) {
    body(RowCount<kGroupRows>(), row);
  }
  for (; row + 4 <= count; row += 4) {
    body(RowCount<4>(), row);
  }
  for (; row < count; ++row) {
    body(RowCount<1>(), row);
  }
}

// Adds n numbers to the chains of kCount rows and kVectors vectors of columns. Strides are
// constants so that a row needs no register of its own.
template <int64_t kRowStride, int64_t kColumnStride, int kCount, int kVectors>
[[gnu::always_inline]] inline void ExtendChains(const float* rows, const float* columns, int64_t n,
                                                F32 (&chain)[kCount][kVectors]) {
  for (int64_t i = 0; i < n; ++i) {
    F32 column[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      column[v] = Kept(Load(columns + i * kColumnStride + v * kLanes));
    }
    for (int r = 0; r < kCount; ++r) {
      const F32 x = Set(rows[r * kRowStride + i]);
      for (int v = 0; v < kVectors; ++v) {
        chain[r][v] = MulAdd(x, column[v], chain[r][v]);
      }
    }
  }
}

// sums[r][j] += the chain of row r and column j over n numbers, for kVectors vectors of columns.
template <int kCount, int kVectors, int64_t kRowStride, int64_t kColumnStride>
void AddChains(const float* rows, const float* columns, int64_t n, float* sums,
               int64_t sums_stride) {
  F32 chain[kCount][kVectors];
  for (auto& row : chain) {
    for (F32& lanes : row) {
      lanes = Zero();
    }
  }
  ExtendChains<kRowStride, kColumnStride>(rows, columns, n, chain);
  for (int r = 0; r < kCount; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* sum = sums + r * sums_stride + v * kLanes;
      Store(sum, Load(sum) + chain[r][v]);
    }
  }
}

// AddChains for `n_rows` rows and `n_columns` columns, n_columns a multiple of kLanes.
template <int64_t kRowStride, int64_t kColumnStride>
void AddAllChains(const float* rows, int64_t n_rows, const float* columns, int64_t n_columns,
                  int64_t n, float* sums, int64_t sums_stride) {
  ForRowGroups(n_rows, [&](auto count, int64_t row) {
    int64_t j = 0;
    for (; j + 2 * kLanes <= n_columns; j += 2 * kLanes) {
      AddChains<count.value, 2, kRowStride, kColumnStride>(
          rows + row * kRowStride, columns + j, n, sums + row * sums_stride + j, sums_stride);
    }
    for (; j < n_columns; j += kLanes) {
      AddChains<count.value, 1, kRowStride, kColumnStride>(
          rows + row * kRowStride, columns + j, n, sums + row * sums_stride + j, sums_stride);
    }
  });
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
