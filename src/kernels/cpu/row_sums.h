// Sums over one row of numbers (docs/numerics.md 1).
#pragma once

#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

inline float ScalarSquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Returns the sum of x[i]^2, i < n, in the order of products with BF16 weights: 32 lanes.
inline float SumOfSquares(const uint16_t* x, int64_t n) {
  F32 lanes[2][kParts];
  for (auto& half : lanes) {
    for (F32& lane : half) {
      lane = Zero();
    }
  }
  int64_t first = 0;
  for (; first + 32 <= n; first += 32) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < kParts; ++part) {
        const F32 value = LoadBf16(x + first + 16 * half + part * kLanes);
        lanes[half][part] = MulAdd(value, value, lanes[half][part]);
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < kParts; ++part) {
      const int64_t i = first + 16 * half + part * kLanes;
      if (i < n) {
        const F32 value = LoadBf16Some(x + i, static_cast<int>(n - i < kLanes ? n - i : kLanes));
        lanes[half][part] = MulAdd(value, value, lanes[half][part]);
      }
    }
  }
  F32 sums[kParts];
  for (int part = 0; part < kParts; ++part) {
    sums[part] = lanes[0][part] + lanes[1][part];
  }
  return TreeSum(sums);
}

// Returns the factor of the RMS norm for n numbers with this sum of squares.
inline float InverseNorm(float sum_of_squares, int64_t n, float eps) {
  return 1.0f / ScalarSquareRoot(sum_of_squares / static_cast<float>(n) + eps);
}

}  // namespace
}  // namespace fathom::KERNEL_ISA
