// FP4 products with few rows of activations where operands are fp32: in integers, which costs half
// the instructions and gives the same bits.
//
// 512 x is an integer of 18 bits, 2 w one of 5, and their sum over 8 columns is exact in 32 bits:
// converting it rounds once, as docs/numerics.md asks for. With
//   512 x = C + 8 B + 2048 A,  C in 0 ... 7, B in -128 ... 127, A in -112 ... 112,
// every digit is a byte plane of the activations, and 2 w + 12 an unsigned byte that a shuffle
// makes of a weight's four bits; 12 times the sum of the digits is taken away. C is zero in most
// blocks: it needs a number below 1/64 of the largest's power of two.
//
// A weight byte holds an even column in its lower half and an odd one in its upper half, so planes
// are kept for even and odd columns. A prepared block is, per slice of kLanes lanes of 8 columns,
//   4 kLanes bytes each: A even, B even, A odd, B odd, C even, C odd;
//   kLanes int32 each:   -12 * sum(256 A + B), -12 * sum(C)
// which are 32 kLanes bytes, as many as the block's columns in fp32. The row's scale is that of the
// quantisation times 2^-7, the value of an integer without C, or minus that times 2^-10 where the
// block needs C.
#ifndef FATHOM_KERNELS_CPU_PRODUCT_PLANES_H_
#define FATHOM_KERNELS_CPU_PRODUCT_PLANES_H_

#include "kernels/cpu/product_formats.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int kPlaneBytes = 4 * kLanes;
constexpr int kWeightOffset = 12;  // added to twice a weight
enum Plane : int { kEvenA, kEvenB, kOddA, kOddB, kEvenC, kOddC, kOffsetAB, kOffsetC };

struct Fp4Planes {
  static constexpr bool kByBlocks = true;
  static constexpr bool kWholeBlocks = false;
  static constexpr bool kSharedScale = false;
  static constexpr int kSlicesPerPart = 1;
  static constexpr int kSlices = kParts;
  static constexpr int kSums = kSlices;
  static constexpr int kChains = 1;
  static constexpr int64_t kBlockBytes = 64;
  struct Block {
    I32 w[2];  // even and odd columns
    F32 scale;
  };

  static constexpr int XOffset(int slice) { return slice * 8 * kLanes; }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                           12, 11, 10, 9,  8,  6,  4,  0};
    const I32 nibble = SetInt(0x0F0F0F0F);
    const I32 bytes = LoadInt(row.bytes + block * kBlockBytes + part * kPlaneBytes);
    out[0].w[0] = LookUpBytes(kTable, And(bytes, nibble));
    out[0].w[1] = LookUpBytes(kTable, And(ShiftRight<4>(bytes), nibble));
    out[0].scale = ExpandFp4Scales(row.scales + block * 4, part);
  }

  // Sums of 16 bits cannot overflow: 4 * 24 * 128.
  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales& scale,
                                         const float* const (&x)[kRows],
                                         const float* const (&x_scales)[kRows],
                                         F32* const (&sums)[kRows][kColumns]) {
    for (int m = 0; m < kRows; ++m) {
      const auto plane = [&](Plane p) {
        return LoadInt(reinterpret_cast<const uint8_t*>(x[m]) + p * kPlaneBytes);
      };
      const float x_scale = *x_scales[m];
      for (int c = 0; c < kColumns; ++c) {
        const auto both = [&](Plane even, Plane odd) {
          return Add16(MultiplyBytes(weight(0, c), plane(even)),
                       MultiplyBytes(weight(1, c), plane(odd)));
        };
        I32 total =
            KERNEL_ISA::Add(SumHalves16By256(both(kEvenA, kOddA)),
                            KERNEL_ISA::Add(SumHalves16(both(kEvenB, kOddB)), plane(kOffsetAB)));
        float factor = x_scale;
        if (x_scale < 0) [[unlikely]] {
          const I32 c_sum = KERNEL_ISA::Add(SumHalves16(both(kEvenC, kOddC)), plane(kOffsetC));
          total = KERNEL_ISA::Add(ShiftLeft<3>(total), c_sum);
          factor = -x_scale;
        }
        *sums[m][c] = MulAdd(ToFloat(total) * Set(factor), scale(c), *sums[m][c]);
      }
    }
  }

  static void Finish(const F32 (&a)[4][kSums], float* out) { TreeSums(a, out); }
};

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_PRODUCT_PLANES_H_
