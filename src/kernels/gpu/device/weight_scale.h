// Scales of FP8 weights.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/gpu.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

// Returns the scale of kFp8 block (row / 128, block).
GPU_DEVICE float Fp8Scale(const Weight& w, int64_t row, int64_t block) {
  const int64_t i = row / kFp8Block * w.ScaleColumns() + block;
  return w.scale_format == ScaleFormat::kE8m0
             ? E8m0ToFloat(reinterpret_cast<const uint8_t*>(w.scales)[i])
             : reinterpret_cast<const float*>(w.scales)[i];
}

}  // namespace fathom::kernels::gpu
