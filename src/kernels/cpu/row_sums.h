// Sums over one row of numbers (docs/numerics.md 1).
#pragma once

#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

inline float SquareRootOf(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// A partial sum of squares, in the order of products with BF16 weights: 32 lanes.
struct SquareLanes {
  F32 lanes[2][kParts];
};

inline void Clear(SquareLanes& squares) {
  for (auto& half : squares.lanes) {
    for (F32& lane : half) {
      lane = Zero();
    }
  }
}

// Adds x[i]^2, i < n; the squares added before must be a multiple of 32 numbers.
inline void AddSquares(const uint16_t* x, int64_t n, SquareLanes& squares) {
  int64_t first = 0;
  for (; first + 32 <= n; first += 32) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < kParts; ++part) {
        const F32 value = LoadBf16(x + first + 16 * half + part * kLanes);
        squares.lanes[half][part] = MulAdd(value, value, squares.lanes[half][part]);
      }
    }
  }
  if (first < n) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < kParts; ++part) {
        const int64_t i = first + 16 * half + part * kLanes;
        if (i < n) {
          const F32 value = LoadBf16Some(x + i, static_cast<int>(n - i < kLanes ? n - i : kLanes));
          squares.lanes[half][part] = MulAdd(value, value, squares.lanes[half][part]);
        }
      }
    }
  }
}

inline float SumOf(const SquareLanes& squares) {
  F32 sums[kParts];
  for (int part = 0; part < kParts; ++part) {
    sums[part] = squares.lanes[0][part] + squares.lanes[1][part];
  }
  return TreeSum(sums);
}

// Returns the factor of the RMS norm for a row of n numbers with these squares.
inline float InverseNorm(const SquareLanes& squares, int64_t n, float eps) {
  return 1.0f / SquareRootOf(SumOf(squares) / static_cast<float>(n) + eps);
}

inline float InverseNorm(const uint16_t* x, int64_t n, float eps) {
  SquareLanes squares;
  Clear(squares);
  AddSquares(x, n, squares);
  return InverseNorm(squares, n, eps);
}

}  // namespace
}  // namespace fathom::KERNEL_ISA
