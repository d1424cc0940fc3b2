// The weight formats: how rows of weights are expanded and summed, by blocks of 128 columns. Which
// loop runs for which format, rows of activations and instruction set, and why:
// docs/cpu_kernels.md.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// One row of a weight.
struct WeightRow {
  const uint8_t* bytes;
  const uint8_t* scales;  // scales of this row; null if the format has none
  bool e8m0_scales;
};

inline float Fp8Scale(const WeightRow& row, int64_t block) {
  if (row.e8m0_scales) return FromE8m0(row.scales[block]);
  float scale;
  __builtin_memcpy(&scale, row.scales + 4 * block, 4);
  return scale;
}

// A format of weights on one instruction set. Its sums are kSlices registers, slices of the lanes
// of docs/numerics.md: slice p, or slices p and kParts + p, for part p of 16 lanes. Per block and
// slice there are kOperands operands, in the order in which they are added. CommonFormat has
// defaults.
template <class F>
concept BlockFormat = requires(const WeightRow& row, typename F::Block (&block)[F::kSlicesPerPart],
                               const F32 (&sums)[4][F::kSums], float* values) {
  typename F::Value;            // an operand
  typename F::Scale;            // the scale of a block and slice in a panel
  F::kOperands;                 // kXStride floats apart where AddChains adds activations
  F::kBlockBytes;               // of one row
  F::XOffset(0);                // the offset of a slice's operands in a prepared block
  F::Expand(row, 0, 0, block);  // loads the slices of a part, with their scale
  F::Finish(sums, values);      // adds four products over all lanes
};

// Each block's sum is multiplied by its scale: Add adds it, for a slice of kRows rows of
// activations and kColumns rows of weights; weight(j, c) is operand j of row c. Other formats have
// one chain for all blocks (AddChains).
template <class F>
concept SumsByBlocks = BlockFormat<F> && F::kByBlocks;

// The lanes of a block are added before its scale: Add leaves the chains of one block, which Close
// adds to one more register, kTotal, the same number in every lane.
template <class F>
concept ClosesBlocks = SumsByBlocks<F> && requires {
  F::kTotal;
};

// Sums stay in registers from block to block of a panel, by AddTo.
template <class F>
concept KeepsSums = SumsByBlocks<F> && F::kKeepsSums;

// Where registers are few, operands of weights are made when they are multiplied: the operands of a
// whole block would be spilled to the stack and reloaded. Open begins a block and slice of one row,
// Next(j) is called with 0 ... kOperands - 1, once or in rounds.
template <class F>
concept MakesOneByOne = BlockFormat<F> && kRegisters == 16 &&
                        requires(const WeightRow& row, typename F::OneByOne& operands) {
  F::Open(row, 0, 0, operands);
  operands.Next(0);
  operands.ScaleValue();
};

// The scales of blocks can be multiplied into activations: product_folded.h.
template <class F>
concept Folds = BlockFormat<F> && kOperandColumns == 1 && requires {
  F::kQuantized.fewest_rows;
  F::kUnquantized.fewest_rows;
};

// The scales of a block's rows for Add: scale(c). kShared: all rows have the first row's scale.
template <class Scale, bool kSharedByAll>
struct PanelScales {
  static constexpr bool kShared = kSharedByAll;
  const Scale* scales;
  Scale operator()(int c) const { return scales[kShared ? 0 : c]; }
};

// Adds operands [first, first + count) to the chains of all rows and columns; `start` makes the
// first a plain product. Each operand is loaded once. x[m]: the operands of activation row m.
template <int kXStride, int kRows, int kColumns, class Weights>
[[gnu::always_inline]] inline void AddChains(const Weights& weight, int first, int count,
                                             const float* const (&x)[kRows], bool start,
                                             F32 (&chains)[kRows][kColumns]) {
#pragma GCC unroll 8
  for (int j = first; j < first + count; ++j) {
    decltype(weight(0, 0)) rows[kRows];
    for (int m = 0; m < kRows; ++m) {
      LoadTo(x[m] + kXStride * j, rows[m]);
      if constexpr (kColumns > 1) {
        Keep(rows[m]);
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      auto w = weight(j, c);
      if constexpr (kRows > 1) {
        Keep(w);
      }
      for (int m = 0; m < kRows; ++m) {
        chains[m][c] =
            start && j == first ? Multiply(w, rows[m]) : MulAdd(w, rows[m], chains[m][c]);
      }
    }
  }
}

// The defaults of a format: kPerPart slices per part and one chain per product.
template <int kPerPart = 1>
struct CommonFormat {
  static constexpr bool kByBlocks = true;
  static constexpr bool kKeepsSums = false;
  static constexpr bool kRowsShareScales = false;  // 128 rows of the weight
  static constexpr bool kPrefetchesBlocks = true;  // in panels, into the first-level cache
  static constexpr int64_t kPanelBlocks = 4 * kOperandColumns;  // 8 to 10 KiB of expanded weights
  static constexpr int kSlicesPerPart = kPerPart;
  static constexpr int kSlices = kPerPart * kParts;
  static constexpr int kSums = kSlices;      // registers per product
  static constexpr int kChains = 1;          // per product
  static constexpr int64_t kScaleBytes = 0;  // per block, where every row has its own scales

  static void Finish(const F32 (&a)[4][kSums], float* out) { TreeSums(a, out); }
};

// FP4 where operands are pairs; elsewhere see product_integers.h. It is a template because only
// instruction sets that use it have its ExpandFp4.
template <class Pairs>
struct Fp4Pairs : CommonFormat<> {
  static constexpr int kChains = 2;
  static constexpr int64_t kBlockBytes = 64;
  static constexpr int64_t kScaleBytes = 4;
  static constexpr bool kPrefetchesBlocks = false;  // it takes longer than it saves. Measured.
  static constexpr int kOperands = 8 / kOperandColumns;
  static constexpr int kXStride = kLanes;
  using Value = Pairs;
  using Scale = F32;
  struct Block {
    Value w[kOperands];
    Scale scale;
  };

  static constexpr int XOffset(int slice) { return slice * kOperands * kXStride; }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    ExpandFp4(row.bytes + block * kBlockBytes + part * (kLanes * 4), out[0].w);
    out[0].scale = ExpandFp4Scales(row.scales + block * 4, part);
  }

  // Sums of four products are exact, the sum of two such sums is rounded once. Starting from +0
  // keeps a sum of zeros +0, like a sum of integers. The scale of x is part of x.
  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales& scale,
                                         const float* const (&x)[kRows],
                                         const float* const (&)[kRows], int,
                                         F32* const (&sums)[kRows][kColumns]) {
    F32 halves[2][kRows][kColumns];
    AddHalves(weight, x, halves);
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kColumns; ++c) {
        *sums[m][c] = MulAdd(halves[0][m][c] + halves[1][m][c], scale(c), *sums[m][c]);
      }
    }
  }

  template <int kRows, int kColumns, class Weights>
  [[gnu::always_inline]] static void AddHalves(const Weights& weight,
                                               const float* const (&x)[kRows],
                                               F32 (&halves)[2][kRows][kColumns]) {
    for (int half = 0; half < 2; ++half) {
      for (auto& row : halves[half]) {
        for (F32& sum : row) {
          sum = Zero();
        }
      }
      AddChains<kXStride>(weight, half * kOperands / 2, kOperands / 2, x, /*start=*/false,
                          halves[half]);
    }
  }
};

// The operands of kLanes lanes of 4 columns in each half of a block. `columns`: the columns of the
// first half; `expand` makes operands of a column and of the column 64 further on.
template <class T, int kCount>
[[gnu::always_inline]] inline void ExpandHalves(const T* columns,
                                                void (&expand)(const T*, Operand (&)[kCount]),
                                                Operand (&out)[2 * kCount]) {
  Operand halves[2][kCount];
  expand(columns, halves[0]);
  expand(columns + 64, halves[1]);
  for (int j = 0; j < kCount; ++j) {
    out[j] = halves[0][j];
    out[kCount + j] = halves[1][j];
  }
}

// Parameters for folding scales into activations: weights are multiplied by `weights`, activations
// by their factor / `weights`, if the factor is in [least, most]. With fewer rows of activations
// the order in which weights are read costs more than folding saves. Measured.
//
// Weights times 2^-120 would suffice, but a few of them are subnormal numbers, which cost an
// instruction of Intel's processors some 150 cycles, for every row of activations.
struct Folding {
  int64_t fewest_rows;
  float weights;
  float least;
  float most;
};

// With operands in fp32, weights are times 2^-120 and activations times 2^118, and the chain is the
// true chain times 1/4, which the scale of x corrects: nothing in the chain can overflow or become
// subnormal, so every rounding is the same. With operands in bf16, the scale of x is part of x.
//
// Activations that are not quantised are times 2^60 instead, and the chain is the true chain times
// 2^-60. They are multiples of 2^-57 and weights of 2^-16, so that subnormal numbers in the chain
// are exact, and vdpbf16ps meets no subnormal number.
struct Fp8Blocks : CommonFormat<> {
  static constexpr bool kRowsShareScales = true;
  static constexpr int64_t kBlockBytes = 128;
  static constexpr int kOperands = 8 / kOperandColumns;
  static constexpr int kXStride = kLanes;
  using Value = Operand;
  using Scale = float;
  struct Block {
    Value w[kOperands];
    Scale scale;
  };

  static constexpr int XOffset(int slice) { return slice * kOperands * kXStride; }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    ExpandHalves(row.bytes + block * kBlockBytes + part * (kLanes * 4), ExpandFp8, out[0].w);
    out[0].scale = Fp8Scale(row, block);
  }

  static float Factor(float scale, const float* x_scale) {
    return kOperandColumns == 1 ? *x_scale * scale : scale;
  }

  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales& scale,
                                         const float* const (&x)[kRows],
                                         const float* const (&x_scales)[kRows], int,
                                         F32* const (&sums)[kRows][kColumns]) {
    F32 chains[kRows][kColumns];
    AddChains<kXStride>(weight, 0, kOperands, x, /*start=*/true, chains);
    for (int m = 0; m < kRows; ++m) {
      F32 factor = Set(Factor(scale(0), x_scales[m]));
      for (int c = 0; c < kColumns; ++c) {
        if constexpr (!requires { requires Scales::kShared; }) {
          factor = Set(Factor(scale(c), x_scales[m]));
        }
        *sums[m][c] = MulAdd(chains[m][c], factor, *sums[m][c]);
      }
    }
  }
};

// The two formats whose operands are the codes alone.
struct Fp8OneByOne : Fp8Blocks {
  struct OneByOne {
    const uint8_t* bytes;
    float scale;
    Fp8Bytes four;

    float ScaleValue() const { return scale; }

    [[gnu::always_inline]] F32 Next(int j) {
      if (j % 4 == 0) {
        four = LoadFp8(bytes + 16 * j);
      }
      return Fp8Operand(four, j % 4);
    }
  };
  [[gnu::always_inline]] static void Open(const WeightRow& row, int64_t block, int part,
                                          OneByOne& out) {
    out.bytes = row.bytes + block * kBlockBytes + part * (kLanes * 4);
    out.scale = Fp8Scale(row, block);
  }
};

// FP8 with E8M0 scales.
struct Fp8 : Fp8OneByOne {
  // Folded, the chain is the true chain times the scales. For these factors nothing in the chain
  // overflows or loses bits. Activations that are not quantised leave no room for their factor,
  // about 2^60.
  static constexpr Folding kQuantized = {12, 0x1p60f, 0x1p-100f, 1.0f};
  static constexpr Folding kUnquantized = {20, 0x1p60f, 0x1p-20f, 0x1p60f};
};

// FP8 with F32 scales.
struct Fp8WholeBlocks : Fp8OneByOne {
  static constexpr int kTotal = kSlices;
  static constexpr int kSums = kSlices + 1;

  template <int kRows, int kColumns, class Weights, class Scales>
  [[gnu::always_inline]] static void Add(const Weights& weight, const Scales&,
                                         const float* const (&x)[kRows],
                                         const float* const (&)[kRows], int,
                                         F32* const (&sums)[kRows][kColumns]) {
    F32 chains[kRows][kColumns];
    AddChains<kXStride>(weight, 0, kOperands, x, /*start=*/true, chains);
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kColumns; ++c) {
        *sums[m][c] = chains[m][c];
      }
    }
  }

  // The trees need the same correction as the chains.
  [[gnu::always_inline]] static void Close(float factor, F32* const (&sums)[4]) {
    F32 chains[4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        chains[i][part] = sums[i][part];
      }
    }
    float trees[4];
    TreeSums(chains, trees);
    for (int i = 0; i < 4; ++i) {
      sums[i][kTotal] = sums[i][kTotal] + Set(trees[i] * factor);
    }
  }
  [[gnu::always_inline]] static void Close(float factor, F32* const (&sums)[1]) {
    F32 chains[kParts];
    for (int part = 0; part < kParts; ++part) {
      chains[part] = sums[0][part];
    }
    sums[0][kTotal] = sums[0][kTotal] + Set(TreeSum(chains) * factor);
  }

  static void Finish(const F32 (&a)[4][kSums], float* out) {
    for (int i = 0; i < 4; ++i) {
      out[i] = FirstLane(a[i][kTotal]);
    }
  }
};

// FP8 with F32 scales for activations that are not quantised: bf16(e4m3 * scale), except that the
// power of two in the scale is the scale of the block.
struct Fp8AsBf16 : Fp8Blocks {
  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    Fp8Blocks::Expand(row, block, part, out);
    const uint32_t bits = FloatToBits(out[0].scale);
    const float factor = BitsToFloat((bits & 0x807FFFFFu) | 0x3F800000u);
    for (Operand& w : out[0].w) {
      w = ScaledFp8(w, factor);
    }
    out[0].scale = BitsToFloat(bits & 0x7F800000u);
  }
};

// BF16 weights in the order of FP8: weights and activations are multiples of 2^-57, and products
// far from subnormal.
struct Bf16ByBlocks : Fp8Blocks {
  static constexpr bool kRowsShareScales = false;
  static constexpr int64_t kBlockBytes = 256;

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[1]) {
    const auto* numbers = reinterpret_cast<const uint16_t*>(row.bytes + block * kBlockBytes);
    ExpandHalves(numbers + part * (kLanes * 4), ExpandBf16, out[0].w);
    out[0].scale = 1.0f;
  }
};

// Not by blocks: 32 lanes in 2 * kParts slices, one chain for all blocks. Lanes of even columns
// come first, then lanes of odd columns: the tree of 32 lanes by halves adds even and odd lanes in
// its last step only.
struct Bf16Pairs : CommonFormat<2> {
  static constexpr bool kByBlocks = false;
  static constexpr bool kPrefetchesBlocks = kRegisters == 32;  // measured
  static constexpr int64_t kBlockBytes = 256;
  static constexpr int kOperands = 4;
  static constexpr int kXStride = kLanes;
  using Value = F32;
  using Scale = char;  // no scales
  struct Block {
    Value w[kOperands];
  };

  static constexpr int XOffset(int slice) { return slice * kOperands * kXStride; }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[2]) {
    const auto* numbers = reinterpret_cast<const uint16_t*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < kOperands; ++i) {
      const Pairs pairs = LoadBf16Pairs(numbers + 32 * i + 2 * kLanes * part);
      out[0].w[i] = pairs.even;
      out[1].w[i] = pairs.odd;
    }
  }

  static void Finish(const F32 (&a)[4][kSums], float* out) {
    F32 lanes[2][4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[0][i][part] = a[i][part];
        lanes[1][i][part] = a[i][kParts + part];
      }
    }
    float odd[4];
    TreeSums(lanes[0], out);
    TreeSums(lanes[1], odd);
    for (int i = 0; i < 4; ++i) {
      out[i] = out[i] + odd[i];
    }
  }
};

// 32 lanes in natural order: lanes below 16 first.
struct Plain : Bf16Pairs {
  static constexpr int64_t kBlockBytes = 512;
  static constexpr int kXStride = 32;
  static constexpr int XOffset(int slice) { return slice / kParts * 16 + slice % kParts * kLanes; }

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block (&out)[2]) {
    const auto* numbers = reinterpret_cast<const float*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < kOperands; ++i) {
      out[0].w[i] = Load(numbers + 32 * i + kLanes * part);
      out[1].w[i] = Load(numbers + 32 * i + 16 + kLanes * part);
    }
  }

  static void Finish(const F32 (&a)[4][kSums], float* out) {
    F32 lanes[4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[i][part] = a[i][part] + a[i][kParts + part];
      }
    }
    TreeSums(lanes, out);
  }
};

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
