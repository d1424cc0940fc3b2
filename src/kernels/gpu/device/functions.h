// Operations of kernels/math.h and kernels/rope_angle.h for kernels.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/gpu.h"
#include "kernels/math.h"

namespace fathom::kernels::gpu {

struct GpuOps : ScalarOps {
  GPU_ANYWHERE static F MulAdd(F a, F b, F c) { return Fma(a, b, c); }
};

struct GpuDoubleOps {
  GPU_ANYWHERE static double Floor(double x) { return ::fathom::kernels::Floor(x); }
  GPU_ANYWHERE static double MulAdd(double a, double b, double c) { return Fma(a, b, c); }
};

inline constexpr float kMinusInfinity = -__builtin_inff();

// Returns the number of tiles of `tile` that n fills.
constexpr int64_t TileCount(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

// silu(min(gate, clamp)) * clamp(up). NaN stays NaN.
GPU_DEVICE float Activate(Bf16 gate, Bf16 up, float clamp) {
  const float gate_value = ToFloat(gate);
  const float up_value = ToFloat(up);
  const float g = clamp < gate_value ? clamp : gate_value;
  const float below = clamp < up_value ? clamp : up_value;
  const float v = below < -clamp ? -clamp : below;
  return Silu<GpuOps>(g) * v;
}

}  // namespace fathom::kernels::gpu
