// Operations on one vector that several kernels share: RMS norm and rotation (docs/numerics.md 3,
// 4).
//
// `static`: see kernels/math.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/float_types.h"
#include "kernels/reference/lanes.h"

namespace fathom::kernels {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// out [d] = x [d] normalised, times weight [d]. out may be x.
static inline void NormalizeRow(const Bf16* x, const Bf16* weight, float eps, std::int64_t d,
                                Bf16* out) {
  const float sum = SumOfSquares(d, [&](std::int64_t i) { return ToFloat(x[i]); });
  const float r = 1.0f / std::sqrt(sum / static_cast<float>(d) + eps);
  for (std::int64_t i = 0; i < d; ++i) {
    out[i] = ToBf16(ToFloat(weight[i]) * (ToFloat(x[i]) * r));
  }
}

// Rotates the pairs (x[2k], x[2k + 1]), k < pairs, by the angles with the given cos and sin
// [pairs]; direction -1 rotates back.
static inline void RotatePairs(Bf16* x, std::int64_t pairs, const float* cos, const float* sin,
                               float direction = 1.0f) {
  for (std::int64_t k = 0; k < pairs; ++k) {
    const float a = ToFloat(x[2 * k]);
    const float b = ToFloat(x[2 * k + 1]);
    const float c = cos[k];
    const float s = direction * sin[k];
    x[2 * k] = ToBf16(a * c - b * s);
    x[2 * k + 1] = ToBf16(a * s + b * c);
  }
}

}  // namespace fathom::kernels
