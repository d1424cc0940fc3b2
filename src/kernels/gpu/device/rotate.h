// Rotates a pair by its position (docs/numerics.md 3).
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

struct RotatedPair {
  Bf16 x;
  Bf16 y;
};

GPU_DEVICE RotatedPair Rotate(Bf16 x, Bf16 y, float cos, float sin) {
  const float a = ToFloat(x);
  const float b = ToFloat(y);
  return {ToBf16(a * cos - b * sin), ToBf16(a * sin + b * cos)};
}

}  // namespace fathom::kernels::gpu
