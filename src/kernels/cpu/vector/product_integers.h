// FP4 products where operands are fp32: computed in integers, with fewer instructions and equal
// bits.
//
// 512 x is an integer of 19 bits, twice a weight an integer of 5 bits, and the sum of their
// products over the 8 columns of a lane is exact in 32 bits: converting the sum rounds once, as
// docs/numerics.md requires. An instruction that multiplies 16 bits takes 8 x / unit, where unit is
// the power of two with which the largest number of the lane fits; the rest, three bits of 8 x 2^3
// / unit, is zero in nearly all blocks: it is not zero only if two numbers in one lane are 2^11
// apart. The operands of blocks in which such numbers are have marks; an eighth of the sum of their
// low parts is added.
//
// Two columns of a lane are one operand: columns 0 and 4, 2 and 6, 1 and 5, 3 and 7 (a weight byte
// holds an even column in its lower half and an odd one in its upper half). Weights are times 2^9,
// in the upper byte of 16 bits. A prepared block is, per slice of kLanes lanes,
//   4 kLanes pairs of int16: the high parts,
//   kLanes floats: the worth of each sum,
//   kLanes words: the low parts of operand j, in bits 4 j and 16 + 4 j on.
// The bits of the row's scale of the block are its marks: bit 4 s + j is operand j of slice s. Bit
// kNanMark says that some number of the block is NaN.
#pragma once

#include "kernels/cpu/vector/product_formats.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

struct Fp4Integers : CommonFormat<> {
  static constexpr bool kKeepsSums = true;
  static constexpr int64_t kPanelBlocks = 8;
  static constexpr int64_t kBlockBytes = 64;
  static constexpr int64_t kScaleBytes = 4;
  static constexpr int kOperands = 4;
  static constexpr int kWorth = kOperands * kLanes;  // offset in a prepared slice
  static constexpr int kLow = kWorth + kLanes;
  static constexpr int kSliceFloats = kLow + kLanes;
  static constexpr int64_t kXFloats = kSlices * kSliceFloats;
  static constexpr uint32_t kNanMark = 1u << 31;
  using Value = I32;
  using Scale = F32;
  struct Block {
    Value w[kOperands];
    Scale scale;
  };

  static constexpr int XOffset(int slice) { return slice * kSliceFloats; }

  static constexpr int32_t kLowBits = 0x00070007;  // bits of both columns of an operand
  // Returns the low parts of operand j.
  static I32 LowParts(I32 low, int j) { return And(ShiftRightBy(low, 4 * j), SetInt(kLowBits)); }

  struct OneByOne {
    const uint8_t* bytes;
    const uint8_t* scales;
    int part;
    I32 two;

    [[gnu::always_inline]] F32 ScaleValue() const { return ExpandFp4Scales(scales, part); }

    [[gnu::always_inline]] I32 Next(int j) {
      if (j % 2 == 0) {
        static constexpr uint8_t kTwice[16] = {0, 1,   2,   3,   4,   6,   8,   12,
                                               0, 255, 254, 253, 252, 250, 248, 244};
        const I32 all = LoadInt(bytes);
        two = LookUpBytes(kTwice, And(j == 0 ? all : ShiftRight<4>(all), SetInt(0x0F0F0F0F)));
      }
      return j % 2 == 0 ? ShiftLeft16<8>(two) : And(two, SetInt(static_cast<int32_t>(0xFF00FF00u)));
    }
  };
  [[gnu::always_inline]] static void Open(const WeightRow& row, int64_t block, int part,
                                          OneByOne& out) {
    out.bytes = row.bytes + block * kBlockBytes + part * (kLanes * 4);
    out.scales = row.scales + block * 4;
    out.part = part;
  }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    OneByOne operands;
    Open(row, block, part, operands);
    for (int j = 0; j < kOperands; ++j) {
      out[0].w[j] = operands.Next(j);
    }
    out[0].scale = operands.ScaleValue();
  }

  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales& scale,
                                         const float* const (&x)[kRows],
                                         const float* const (&marks)[kRows], int slice,
                                         F32* const (&sums)[kRows][kColumns]) {
    I32 totals[kRows][kColumns];
    SumHigh(weight, x, totals);
    ForMarked(
        x, marks, slice, [&](int m, const float* row, uint32_t) __attribute__((always_inline)) {
          AddLow(weight, row, totals[m]);
        });
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const F32 worth = Load(x[m] + kWorth);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        *sums[m][c] = MulAdd(ToFloat(totals[m][c]) * worth, scale(c), *sums[m][c]);
      }
    }
  }

  // Like Add, for sums that are in registers.
  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void AddTo(const Weights& weight, const Scales& scale,
                                           const float* const (&x)[kRows],
                                           const float* const (&marks)[kRows], int slice,
                                           F32 (&sums)[kRows][kColumns]) {
    I32 totals[kRows][kColumns];
    SumHigh(weight, x, totals);
    ForMarked(
        x, marks, slice, [&](int m, const float* row, uint32_t) __attribute__((always_inline)) {
          if constexpr (kRegisters == 16) {
            AddLowAside(weight, row, totals[m]);
          } else {
            AddLow(weight, row, totals[m]);
          }
        });
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const F32 worth = Load(x[m] + kWorth);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        sums[m][c] = MulAdd(ToFloat(totals[m][c]) * worth, scale(c), sums[m][c]);
      }
    }
  }

 protected:
  static constexpr uint32_t kAllOperands = (1u << kOperands) - 1;

  // Sets the sums of a block and slice, without low parts.
  template <int kRows, int kColumns, class Weights>
  [[gnu::always_inline]] static void SumHigh(const Weights& weight, const float* const (&x)[kRows],
                                             I32 (&totals)[kRows][kColumns]) {
    SumProducts(
        weight, [&](int m, int j) { return LoadInt(x[m] + j * kLanes); }, totals);
  }

  // x(m, j): operand j of row m.
  template <int kRows, int kColumns, class Weights, class Activations>
  [[gnu::always_inline]] static void SumProducts(const Weights& weight, const Activations& x,
                                                 I32 (&totals)[kRows][kColumns]) {
#pragma GCC unroll 4
    for (int j = 0; j < kOperands; ++j) {
      I32 w[kColumns];
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        w[c] = weight(j, c);
        if constexpr (kRows > 1) {
          Keep(w[c]);
        }
      }
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        I32 numbers = x(m, j);
        if constexpr (kColumns > 1) {
          Keep(numbers);
        }
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const I32 products = MultiplyPairs16(w[c], numbers);
          totals[m][c] = j == 0 ? products : KERNEL_ISA::Add(totals[m][c], products);
          Keep(totals[m][c]);
        }
      }
    }
  }

  // Adds the low parts of marked rows by add(m, x, operands); the bits of `operands` are the marks.
  template <int kRows, class AddRow>
  [[gnu::always_inline]] static void ForMarked(const float* const (&x)[kRows],
                                               const float* const (&marks)[kRows], int slice,
                                               const AddRow& add) {
    uint32_t marked = 0;
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      marked |= FloatToBits(*marks[m]);
    }
    if ((marked >> (kOperands * slice) & kAllOperands) == 0) [[likely]] {
      return;
    }
    ForgetMemory();
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const uint32_t operands = FloatToBits(*marks[m]) >> (kOperands * slice) & kAllOperands;
      if (operands != 0) {
        add(m, x[m], operands);
      }
    }
  }

  // Adds an eighth of the sums of one row's low parts.
  template <int kColumns, class Weights>
  [[gnu::always_inline]] static void AddLow(const Weights& weight, const float* x,
                                            I32 (&totals)[kColumns]) {
    const I32 low = LoadInt(x + kLow);
    const I32 shifted[kOperands] = {low, ShiftRight<4>(low), ShiftRight<8>(low),
                                    ShiftRight<12>(low)};
    I32 sums[1][kColumns];
    SumProducts(
        weight, [&](int, int j) { return And(shifted[j], SetInt(kLowBits)); }, sums);
    for (int c = 0; c < kColumns; ++c) {  // exact: weights are times 256
      totals[c] = KERNEL_ISA::Add(totals[c], ShiftRightSigned<3>(sums[0][c]));
    }
  }

  // AddLow out of line: in line it takes registers from the sums of the loop around it.
  template <int kColumns, class Weights>
  [[gnu::always_inline]] static void AddLowAside(const Weights& weight, const float* x,
                                                 I32 (&totals)[kColumns]) {
    I32 copy[kColumns];  // the totals themselves stay in registers
    for (int c = 0; c < kColumns; ++c) {
      copy[c] = totals[c];
    }
    CallAddLow(weight, x, copy);
    for (int c = 0; c < kColumns; ++c) {
      totals[c] = copy[c];
    }
  }
  template <int kColumns, class Weights>
  [[gnu::noinline, gnu::cold]] static void CallAddLow(const Weights weight, const float* x,
                                                      I32 (&totals)[kColumns]) {
    AddLow(weight, x, totals);
  }
};

// Fp4Integers for many rows of activations, where two factors, the worth of a sum and the scale of
// the weights, are powers of two: their exponents are added, as integers, since the units that
// multiply have most to do. Sums are in memory: with four rows of weights for each load of
// activations there are fewer loads, even counting loads of sums.
struct Fp4Powers : Fp4Integers {
  static constexpr bool kKeepsSums = false;
  using Scale = I32;  // the bits of the scale, less the bits of 1
  struct Block {
    Value w[kOperands];
    Scale scale;
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    Fp4Integers::Block expanded[1];
    Fp4Integers::Expand(row, block, part, expanded);
    for (int j = 0; j < kOperands; ++j) {
      out[0].w[j] = expanded[0].w[j];
    }
    out[0].scale = Subtract(Bits(expanded[0].scale), SetInt(0x3F800000));
  }

  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales& scale,
                                         const float* const (&x)[kRows],
                                         const float* const (&marks)[kRows], int slice,
                                         F32* const (&sums)[kRows][kColumns]) {
    I32 totals[kRows][kColumns];
    SumTile(weight, x, totals);
    ForMarked(
        x, marks,
        slice, [&](int m, const float* row, uint32_t operands) __attribute__((always_inline)) {
          AddMarked(weight, row, operands, totals[m]);
        });
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const I32 worth = LoadInt(x[m] + kWorth);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const F32 factor = FromBits(KERNEL_ISA::Add(worth, scale(c)));
        *sums[m][c] = MulAdd(ToFloat(totals[m][c]), factor, *sums[m][c]);
      }
    }
  }

 private:
  // SumHigh with each operand of weights loaded when it is multiplied. For products of a few rows,
  // this order costs up to 15 %. Measured.
  template <int kRows, int kColumns, class Weights>
  [[gnu::always_inline]] static void SumTile(const Weights& weight, const float* const (&x)[kRows],
                                             I32 (&totals)[kRows][kColumns]) {
#pragma GCC unroll 4
    for (int j = 0; j < kOperands; ++j) {
      I32 numbers[kRows];
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        numbers[m] = LoadInt(x[m] + j * kLanes);
        Keep(numbers[m]);
      }
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        I32 w = weight(j, c);
        Keep(w);
#pragma GCC unroll 8
        for (int m = 0; m < kRows; ++m) {
          const I32 products = MultiplyPairs16(w, numbers[m]);
          totals[m][c] = j == 0 ? products : KERNEL_ISA::Add(totals[m][c], products);
          Keep(totals[m][c]);
        }
      }
    }
  }

  // Adds an eighth of the products of one row's low parts. Nearly always one operand has any.
  template <int kColumns, class Weights>
  [[gnu::always_inline]] static void AddMarked(const Weights& weight, const float* x,
                                               uint32_t operands, I32 (&totals)[kColumns]) {
    do {
      const int j = __builtin_ctz(operands);
      operands &= operands - 1;
      const I32 low = LowParts(LoadInt(x + kLow), j);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {  // exact: weights are times 256
        totals[c] =
            KERNEL_ISA::Add(totals[c], ShiftRightSigned<3>(MultiplyPairs16(weight(j, c), low)));
      }
    } while (operands != 0);
  }
};

// The format of FP4 weights on this instruction set.
template <class Value, bool kPairs = kOperandColumns == 2>
struct ChooseFp4 {
  using Format = Fp4Integers;
};
template <class Value>
struct ChooseFp4<Value, true> {
  using Format = Fp4Pairs<Value>;
};
template <class Value>
using Fp4 = typename ChooseFp4<Value>::Format;

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
