// Operands of quantised products where the instruction set multiplies fp32 only: one column per
// lane. Included by simd.h only.
#ifndef FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_
#define FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_

namespace fathom::KERNEL_ISA {
namespace {

using Operand = F32;
inline constexpr int kOperandColumns = 1;  // per lane

// 128 E4M3 codes times 2^-120: out[i] has those of part `part` of columns 32 i ....
inline constexpr float kFp8PairsUnit = 0x1p-120f;
inline void ExpandFp8PairsBlock(const uint8_t* p, int part, Pairs (&out)[4]) {
  for (int i = 0; i < 4; ++i) {
    ExpandFp8Pairs(p + 32 * i + 2 * kLanes * part, out[i].even, out[i].odd);
  }
}

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_
