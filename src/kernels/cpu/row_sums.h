// Sums over one row of numbers (docs/numerics.md 1).
#ifndef FATHOM_KERNELS_CPU_ROW_SUMS_H_
#define FATHOM_KERNELS_CPU_ROW_SUMS_H_

#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

inline float SquareRootOf(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// The sum of x[i]^2, i < n: the product of x with itself in the order of BF16 weights, 32 lanes.
inline float SumOfSquares(const uint16_t* x, int64_t n) {
  F32 lanes[2][kParts];
  for (auto& half : lanes) {
    for (F32& lane : half) {
      lane = Zero();
    }
  }
  for (int64_t first = 0; first < n; first += 32) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < kParts; ++part) {
        const int64_t i = first + 16 * half + part * kLanes;
        if (i < n) {
          const F32 value = LoadBf16Some(x + i, static_cast<int>(n - i < kLanes ? n - i : kLanes));
          lanes[half][part] = MulAdd(value, value, lanes[half][part]);
        }
      }
    }
  }
  for (int part = 0; part < kParts; ++part) {
    lanes[0][part] = lanes[0][part] + lanes[1][part];
  }
  return TreeSum(lanes[0]);
}

// What a row is multiplied with by the RMS norm.
inline float InverseNorm(const uint16_t* x, int64_t n, float eps) {
  return 1.0f / SquareRootOf(SumOfSquares(x, n) / static_cast<float>(n) + eps);
}

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_ROW_SUMS_H_
