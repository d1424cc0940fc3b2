// Rotates pairs (docs/numerics.md 3), shared by the kernels that rotate.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// x [2 * pairs], in place; direction 1 or, to rotate back, -1.
inline void RotatePairs(uint16_t* x, const cpu::RotaryRow& rope, float direction) {
  int64_t k = 0;
  for (; k + kLanes <= rope.pairs; k += kLanes) {
    const Pairs in = LoadBf16Pairs(x + 2 * k);
    const F32 cos = Load(rope.cos + k);
    const F32 sin = Load(rope.sin + k) * Set(direction);
    StoreBf16Pairs(x + 2 * k, {in.even * cos - in.odd * sin, in.even * sin + in.odd * cos});
  }
  for (; k < rope.pairs; ++k) {
    const float a = FromBf16(x[2 * k]);
    const float b = FromBf16(x[2 * k + 1]);
    const float cos = rope.cos[k];
    const float sin = rope.sin[k] * direction;
    x[2 * k] = ToBf16(a * cos - b * sin);
    x[2 * k + 1] = ToBf16(a * sin + b * cos);
  }
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
