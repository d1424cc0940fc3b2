// Operands of quantised products where the instruction set multiplies fp32 only: one column per
// lane. Included by simd.h only.
#ifndef FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_
#define FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_

namespace fathom::KERNEL_ISA {
namespace {

using Operand = F32;
inline constexpr int kOperandColumns = 1;  // per lane

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_SIMD_FLOAT_OPERANDS_H_
