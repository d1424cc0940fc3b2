// Operands of quantised products where the instruction set multiplies fp32 only: one column per
// lane. Included by simd.h only.
#pragma once

namespace fathom::kernels::KERNEL_ISA {
namespace {

using Operand = F32;
inline constexpr int kOperandColumns = 1;  // columns per lane

inline void StoreTo(float* p, Operand x) { Store(p, x); }

// bf16: lane l has 4 numbers; w[j] is number j, zero where it does not count.
inline void ExpandBf16(const uint16_t* p, Operand (&w)[4]) {
  I32 pairs[2];
  LoadWords(p, pairs[0], pairs[1]);
  for (int i = 0; i < 2; ++i) {
    const I32 pair = ZeroBelow16(pairs[i], kSmallestBits);
    w[2 * i] = FromBits(ShiftLeft<16>(pair));
    w[2 * i + 1] = FromBits(And(pair, SetInt(static_cast<int32_t>(0xFFFF0000u))));
  }
}

// Multiplies an expanded FP8 weight by a factor of magnitude 1 to 2, rounded to bf16.
inline Operand ScaledFp8(Operand w, float factor) {
  return RoundNumberToBf16(w * Set(factor * 0x1p120f)) * Set(0x1p-120f);
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
