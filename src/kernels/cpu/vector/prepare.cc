// Prepares activations in the order in which the products read them (docs/numerics.md 2).
//
// The prepared row holds, per block of 128 columns, the operands of every slice of lanes
// (product_formats.h): [slice][operand][kLanes].
//   kF32   the numbers in their order.
//   kBf16  the slices of even columns, then of odd columns: a register of bf16 pairs is split by a
//          shift and a mask.
//   kFp8, kFp8AsBf16, kBf16ByBlocks, kFp4
//          lanes of kOperandColumns columns each (simd_*_operands.h). Lane l of operand j has, with
//          one column per lane,
//            kFp8           column 64 (j / 4) + 4 l + j % 4, times 2^118: the kernel's weights are
//                           times 2^-120; the row's scales are times 4,
//            kFp8AsBf16     the same column, times 2^60; the row's scales are 2^60,
//            kBf16ByBlocks  the same column; the row's scales are 1,
//            kFp4           integers, see product_integers.h;
//          with a pair of columns per lane, upper half first,
//            kFp8           columns 64 (j / 2) + 4 l + 2 (j % 2) and the next, times scale,
//            kFp8AsBf16, kBf16ByBlocks  the same columns,
//            kFp4           columns 8 l + j + 4 and 8 l + j, times scale / 2;
// These powers of two are exact, see product_formats.h: scale is at least 2^-22, and |x| below
// 2^120 cannot overflow.
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/product_integers.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kProductBlock;

// fma(0, -0, a) = a for every a, even -0: the padding that changes nothing.
constexpr float kPadding = -0.0f;

// Quantises 128 numbers to E4M3 values; returns their scale.
float QuantizeBlock(const uint16_t* x, float* values) {
  F32 largest = Zero();
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    largest = Max(Abs(LoadBf16(x + i)), largest);
  }
  const float scale = PowerOfTwoScale(MaxLanes(largest), 1e-4f, 448.0f);
  const F32 inverse = Set(1.0f / scale);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    Store(values + i, RoundToE4m3(LoadBf16(x + i) * inverse));
  }
  return scale;
}

// Stores values times factor, column 0 ... 127, as operands: columns(j, lane, i) is the column in
// place i of a lane, upper half first.
template <class Columns>
void StoreOperands(const float* values, float factor, float* out, const Columns& columns) {
  constexpr int kOperands = 8 / kOperandColumns;
  for (int j = 0; j < kOperands; ++j) {
    for (int lane = 0; lane < 16; ++lane) {
      const float first = values[columns(j, lane, 0)] * factor;
      uint32_t bits = FloatToBits(first);
      if constexpr (kOperandColumns == 2) {
        bits = (bits & 0xFFFF0000u) | FloatToBits(values[columns(j, lane, 1)] * factor) >> 16;
      }
      out[(lane / kLanes * kOperands + j) * kLanes + lane % kLanes] = BitsToFloat(bits);
    }
  }
}

void PrepareFp8(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t block = 0; block < k / kBlock; ++block) {
    float values[kBlock];
    const float scale = QuantizeBlock(x + block * kBlock, values);
    scales[block] = 4.0f * scale;
    StoreOperands(values, kOperandColumns == 1 ? 0x1p118f : scale,
                  out + block * kBlock / kOperandColumns, [](int j, int lane, int i) {
                    constexpr int kHalf = 4 / kOperandColumns;
                    return 64 * (j / kHalf) + 4 * lane + kOperandColumns * (j % kHalf) + i;
                  });
  }
}

// Prepares without quantisation: the numbers as in Bf16ByBlocks, times a power of two where
// operands are fp32.
void PrepareByBlocks(const uint16_t* x, int64_t k, float factor, float* out, float* scales) {
  for (int64_t block = 0; block < k / kBlock; ++block) {
    for (int part = 0; part < kParts; ++part) {
      Operand operands[8 / kOperandColumns];
      ExpandHalves(x + block * kBlock + part * (kLanes * 4), ExpandBf16, operands);
      for (const Operand& operand : operands) {
        StoreTo(out, operand);
        if constexpr (kOperandColumns == 1) {
          Store(out, Load(out) * Set(factor));
        }
        out += kLanes;
      }
    }
    scales[block] = factor;
  }
}

void PrepareFp4Pairs(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t block = 0; block < k / kBlock; ++block) {
    float values[kBlock];
    const float scale = QuantizeBlock(x + block * kBlock, values);
    scales[block] = scale;
    StoreOperands(values, 0.5f * scale, out + block * kBlock / kOperandColumns,
                  [](int j, int lane, int i) { return 8 * lane + j + 4 * (1 - i); });
  }
}

// Stores one block of a row (product_integers.h); returns its marks.
uint32_t StoreIntegers(const float* values, float scale, float* out) {
  uint32_t marked = 0;
  for (int slice = 0; slice < kParts; ++slice) {
    F32 halves[2][4];  // halves of a lane's columns
    LoadColumns(values + 8 * kLanes * slice, 8, halves[0]);
    LoadColumns(values + 8 * kLanes * slice + 4, 8, halves[1]);
    F32 largest = Zero();
    F32 nan = Zero();  // a number that is NaN or infinite makes the lane's worth NaN
    for (const auto& half : halves) {
      for (const F32& x : half) {
        largest = Max(Abs(x), largest);
        nan = MulAdd(x, Zero(), nan);
      }
    }
    const F32 large = SelectLess(largest, Set(256.0f), Set(0x1p10f), Set(0x1p9f));
    const F32 factor = SelectLess(largest, Set(64.0f), Set(0x1p12f),
                                  SelectLess(largest, Set(128.0f), Set(0x1p11f), large));
    float* to = out + slice * Fp4Integers::kSliceFloats;
    I32 low = SetInt(0);
    for (int j = Fp4Integers::kOperands - 1; j >= 0; --j) {
      const int column = j % 2 * 2 + j / 2;
      const I32 first = ToInt(halves[0][column] * factor);
      const I32 second = ToInt(halves[1][column] * factor);
      StoreInt(to + j * kLanes,
               Or(And(ShiftRight<3>(first), SetInt(0xFFFF)), ShiftLeft<16>(ShiftRight<3>(second))));
      const I32 bits = SetInt(7);
      low = Or(ShiftLeft<4>(low), Or(And(first, bits), ShiftLeft<16>(And(second, bits))));
    }
    const F32 worth = Set(scale * 0x1p-6f) / factor + nan;
    Store(to + Fp4Integers::kWorth, worth);
    StoreInt(to + Fp4Integers::kLow, low);
    for (int j = 0; j < Fp4Integers::kOperands; ++j) {
      const uint32_t mark = MaxLanes(ToFloat(Fp4Integers::LowParts(low, j))) > 0 ? 1 : 0;
      marked |= mark << (Fp4Integers::kOperands * slice + j);
    }
    const F32 is_nan = FromBits(SelectNan(worth, Bits(Set(1.0f)), SetInt(0)));
    marked |= MaxLanes(is_nan) > 0 ? Fp4Integers::kNanMark : 0u;
  }
  return marked;
}

void PrepareFp4Integers(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t block = 0; block < k / kBlock; ++block) {
    float values[kBlock];
    const float scale = QuantizeBlock(x + block * kBlock, values);
    scales[block] = BitsToFloat(StoreIntegers(values, scale, out + block * Fp4Integers::kXFloats));
  }
}

void PreparePairs(const uint16_t* x, int64_t k, float* out) {
  constexpr int64_t kStep = 2 * kLanes;  // columns in a register of pairs
  for (int64_t block = 0; block < k; block += kBlock) {
    uint16_t padded[kBlock];
    const uint16_t* columns = x + block;
    if (k - block < kBlock) {
      for (int64_t i = 0; i < kBlock; ++i) {
        padded[i] = block + i < k ? columns[i] : ToBf16(kPadding);
      }
      columns = padded;
    }
    for (int64_t i = 0; i < kBlock; i += kStep) {
      const Pairs pairs = LoadBf16Pairs(columns + i);
      const int64_t part = i / kStep % kParts;
      float* to = out + block + (part * (kBlock / 32) + i / 32) * kLanes;
      Store(to, pairs.even);
      Store(to + kBlock / 2, pairs.odd);
    }
  }
}

void PrepareNatural(const uint16_t* x, int64_t k, float* out) {
  ForVectors(k, [&](int64_t i, int n) { Store(out + i, LoadBf16(x + i, n), n); });
  for (int64_t i = k; i < cpu::PaddedColumns(k); ++i) {
    out[i] = kPadding;
  }
}

}  // namespace

void Prepare(cpu::ProductFormat format, const uint16_t* x, int64_t k, float* out, float* scales) {
  switch (format) {
    case cpu::ProductFormat::kF32:
      return PrepareNatural(x, k, out);
    case cpu::ProductFormat::kBf16:
      return PreparePairs(x, k, out);
    case cpu::ProductFormat::kBf16ByBlocks:
      return PrepareByBlocks(x, k, 1.0f, out, scales);
    case cpu::ProductFormat::kFp8AsBf16:
      return PrepareByBlocks(x, k, 0x1p60f, out, scales);
    case cpu::ProductFormat::kFp8:
      return PrepareFp8(x, k, out, scales);
    case cpu::ProductFormat::kFp4:
      return kOperandColumns == 1 ? PrepareFp4Integers(x, k, out, scales)
                                  : PrepareFp4Pairs(x, k, out, scales);
  }
}

}  // namespace fathom::kernels::KERNEL_ISA
