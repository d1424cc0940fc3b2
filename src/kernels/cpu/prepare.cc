// Activations in the order in which the products read them (docs/numerics.md 2).
//
// The prepared row holds, per block of 128 columns:
//   kF32              32 lanes in natural order.
//   kBf16, kFp8AsBf16 per 32 columns: the 16 even ones, then the 16 odd ones: a register of bf16
//                     pairs is split into even and odd columns by a shift and a mask.
//   kFp8, kFp4        operands (simd_*_operands.h), 16 lanes of kOperandColumns columns each. Lane
//   l
//                     of operand j has, with one column per lane,
//                       kFp8  column 64 (j / 4) + 4 l + j % 4, times 2^118: the kernel's weights
//                       are
//                             times 2^-120; the row's scales are times 4,
//                       kFp4  column 8 l + j, times scale / 2: its weights are twice the value;
//                     with a pair of columns per lane, upper half first,
//                       kFp8  columns 64 (j / 2) + 4 l + 2 (j % 2) and the next, times scale,
//                       kFp4  columns 8 l + j + 4 and 8 l + j, times scale / 2.
// These powers of two are exact, see product_formats.h: scale is at least 2^-22, and |x| below
// 2^120 cannot overflow.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kProductBlock;

// fma(0, -0, a) = a for every a, even -0: the padding that changes nothing.
constexpr float kPadding = -0.0f;

// The E4M3 values of 128 numbers; returns their scale.
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

// values times factor, column 0 ... 127, as operands: columns(j, lane, i) is the column in place i
// of a lane, upper half first.
template <class Columns>
void StoreOperands(const float* values, float factor, float* out, const Columns& columns) {
  constexpr int kOperands = 8 / kOperandColumns;
  for (int j = 0; j < kOperands; ++j) {
    for (int lane = 0; lane < 16; ++lane) {
      const float first = values[columns(j, lane, 0)] * factor;
      uint32_t bits = BitsOf(first);
      if constexpr (kOperandColumns == 2) {
        bits = (bits & 0xFFFF0000u) | BitsOf(values[columns(j, lane, 1)] * factor) >> 16;
      }
      out[16 * j + lane] = FloatOf(bits);
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

void PrepareFp4(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t block = 0; block < k / kBlock; ++block) {
    float values[kBlock];
    const float scale = QuantizeBlock(x + block * kBlock, values);
    scales[block] = scale;
    StoreOperands(values, 0.5f * scale, out + block * kBlock / kOperandColumns,
                  [](int j, int lane, int i) {
                    return 8 * lane + j + (kOperandColumns == 2 ? 4 * (1 - i) : 0);
                  });
  }
}

void PreparePairs(const uint16_t* x, int64_t k, float* out) {
  int64_t i = 0;
  for (; i + 32 <= k; i += 32) {
    for (int64_t part = 0; part < kParts; ++part) {
      const Pairs pairs = LoadBf16Pairs(x + i + 2 * kLanes * part);
      Store(out + i + kLanes * part, pairs.even);
      Store(out + i + kLanes * part + 16, pairs.odd);
    }
  }
  for (int64_t j = i; j < cpu::PaddedColumns(k); ++j) {
    const int64_t in_group = j % 32;
    out[j / 32 * 32 + in_group / 2 + 16 * (in_group % 2)] = j < k ? FromBf16(x[j]) : kPadding;
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
    case cpu::ProductFormat::kFp8AsBf16:
      return PreparePairs(x, k, out);
    case cpu::ProductFormat::kFp8:
      return PrepareFp8(x, k, out, scales);
    case cpu::ProductFormat::kFp4:
      return PrepareFp4(x, k, out, scales);
  }
}

}  // namespace fathom::KERNEL_ISA
