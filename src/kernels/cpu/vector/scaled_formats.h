// FP8 and FP4 weights times their scales, as pairs of bf16 numbers: a block's chain is added to its
// sum without a factor. An addition does not compete with the products for a unit of the processor;
// a fused multiply-add with the scale does, and takes a fifth of the time of several rows of
// activations.
//
// The sums equal the sums of the formats without scales (product_formats.h), since a power of two
// commutes with a chain unless a number overflows or becomes subnormal. Scales are at most 1, so
// that nothing overflows that did not before, and at least 2^-60: activations are multiples of
// 2^-57 (quantised: of 2^-32) and codes of 2^-9, so that nothing but zero is below 2^-126. Rows
// with other scales are multiplied as usual.
//   kFewestRows  rows of activations from which on these formats are faster; measured,
//   AddScaled    adds a block of one row of activations to its sums; with kStarts sets them.
#pragma once

#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_integers.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// Adds the chains of one row of activations and kColumns weight rows to their sums; with kStarts
// the sums begin at zero.
template <bool kStarts, int kColumns>
[[gnu::always_inline]] inline void AddAsTheyAre(const F32 (&chains)[kColumns],
                                                F32 (&sums)[kColumns][1]) {
  for (int c = 0; c < kColumns; ++c) {
    sums[c][0] = (kStarts ? Zero() : sums[c][0]) + chains[c];
  }
}

template <class Pairs>
struct Fp8TimesScale : Fp8 {
  static constexpr int kFewestRows = 6;

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    const uint8_t* bytes = row.bytes + block * kBlockBytes + part * (kLanes * 4);
    for (int half = 0; half < 2; ++half) {
      Pairs operands[2];
      ExpandScaledFp8(bytes + 64 * half, row.scales[block], operands);
      out[0].w[2 * half] = operands[0];
      out[0].w[2 * half + 1] = operands[1];
    }
  }

  template <bool kStarts, int kColumns, class Weights>
  [[gnu::always_inline]] static void AddScaled(const Weights& weight, const float* const (&x)[1],
                                               F32 (&sums)[kColumns][1]) {
    F32 chains[1][kColumns];
    AddChains<kXStride>(weight, 0, kOperands, x, /*start=*/true, chains);
    AddAsTheyAre<kStarts>(chains[0], sums);
  }
};

template <class Pairs>
struct Fp4TimesScales : Fp4Pairs<Pairs> {
  using Base = Fp4Pairs<Pairs>;
  static constexpr int kFewestRows = 8;

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            typename Base::Block (&out)[1]) {
    ExpandScaledFp4(row.bytes + block * Base::kBlockBytes + part * (kLanes * 4),
                    row.scales + block * 4, out[0].w);
  }

  template <bool kStarts, int kColumns, class Weights>
  [[gnu::always_inline]] static void AddScaled(const Weights& weight, const float* const (&x)[1],
                                               F32 (&sums)[kColumns][1]) {
    F32 halves[2][1][kColumns];
    Base::AddHalves(weight, x, halves);
    for (int c = 0; c < kColumns; ++c) {
      halves[0][0][c] = halves[0][0][c] + halves[1][0][c];
    }
    AddAsTheyAre<kStarts>(halves[0][0], sums);
  }
};

// The format that multiplies several rows of activations with weights whose scales fit; the format
// itself if there is none.
template <class Format, int kColumns = kOperandColumns, int kCount = kRegisters>
struct ScaledFormat {
  using Type = Format;
};
template <>
struct ScaledFormat<Fp8, 2> {
  using Type = Fp8TimesScale<Operand>;
};
template <class Value>
struct ScaledFormat<Fp4Pairs<Value>, 2> {
  using Type = Fp4TimesScales<Value>;
};
template <>
struct ScaledFormat<Fp4Integers, 1, 16> {
  using Type = Fp4Powers;
};
template <class Format>
using Scaled = typename ScaledFormat<Format>::Type;

template <class Format>
concept HasScaledFormat = BlockFormat<Format> && !__is_same(Scaled<Format>, Format);
// Its blocks stay in registers (product_scaled.h) instead of panels.
template <class Format>
concept ScalesInRegisters = HasScaledFormat<Format> && kOperandColumns == 2;

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
