// How each weight format is expanded and summed, block of 128 columns by block: the vocabulary of
// product.cc (few rows of activations) and product_panel.h (many).
//
// A format names, for one part of the 16 lanes:
//   Block         the weights of a block, expanded;
//   kAccumulators registers per part that live from block to block;
//   Expand        loads a block;
//   Accumulate    adds the block's products of kColumns weight rows with kRows rows of prepared
//                 activations (x[m] points to the block's); each number is loaded once for all;
//   Finish        the sums of all lanes of four products.
// With kWholeBlocks it also has CloseBlock, which is called when all parts of a block are done.
// kSharedScale: 128 rows of the weight have their scales in common.
#ifndef FATHOM_KERNELS_CPU_PRODUCT_FORMATS_H_
#define FATHOM_KERNELS_CPU_PRODUCT_FORMATS_H_

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

// One row of a weight.
struct WeightRow {
  const uint8_t* bytes;
  const uint8_t* scales;  // of this row; null if the format has none
  bool e8m0_scales;
};

inline float Fp8Scale(const WeightRow& row, int64_t block) {
  if (row.e8m0_scales) {
    return FromE8m0(row.scales[block]);
  }
  float scale;
  __builtin_memcpy(&scale, row.scales + 4 * block, 4);
  return scale;
}

// Rows of activations at one block, and their scales there (quantised formats without folding).
template <int kRows>
struct BlockRows {
  const float* x[kRows];
  const float* scales[kRows];
};

// `count` operands of every row and column from `first`, those of the activations `stride` floats
// apart: chains[m][c] continues, or starts with a product.
template <class Block, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddChains(const Block* const (&b)[kColumns], int first,
                                             int count, const float* const (&x)[kRows], bool start,
                                             F32 (&chains)[kRows][kColumns]) {
#pragma GCC unroll 8
  for (int j = first; j < first + count; ++j) {
    Operand row[kRows];
    for (int m = 0; m < kRows; ++m) {
      row[m] = LoadOperand(x[m] + 16 * j);
      if constexpr (kColumns > 1) {
        Keep(row[m]);
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      Operand w = b[c]->w[j];
      if constexpr (kRows > 1) {
        Keep(w);
      }
      for (int m = 0; m < kRows; ++m) {
        chains[m][c] = start && j == first ? Multiply(w, row[m]) : MulAdd(w, row[m], chains[m][c]);
      }
    }
  }
}

struct Fp4 {
  static constexpr bool kQuantized = true;
  static constexpr bool kWholeBlocks = false;
  static constexpr bool kSharedScale = false;
  static constexpr int kAccumulators = 1;
  static constexpr int kChains = 2;
  static constexpr int64_t kBlockBytes = 64;
  static constexpr int kOperands = 8 / kOperandColumns;
  struct Block {
    Operand w[kOperands];
    F32 scale;
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    ExpandFp4(row.bytes + block * kBlockBytes + part * (kLanes * 4), out.w);
    out.scale = ExpandFp4Scales(row.scales + block * 4, part);
  }

  // Sums of four products are exact, the sum of two such sums is rounded once. Starting from +0
  // keeps a sum of zeros +0, as that of integers is. The scale of x is part of x.
  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block* const (&b)[kColumns],
                                                const BlockRows<kRows>& rows,
                                                F32* const (&sums)[kRows][kColumns]) {
    F32 low[kRows][kColumns];
    F32 high[kRows][kColumns];
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kColumns; ++c) {
        low[m][c] = Zero();
        high[m][c] = Zero();
      }
    }
    AddChains(b, 0, kOperands / 2, rows.x, /*start=*/false, low);
    AddChains(b, kOperands / 2, kOperands / 2, rows.x, /*start=*/false, high);
    for (int c = 0; c < kColumns; ++c) {
      for (int m = 0; m < kRows; ++m) {
        *sums[m][c] = MulAdd(low[m][c] + high[m][c], b[c]->scale, *sums[m][c]);
      }
    }
  }

  static void Finish(const F32 (&a)[4][kParts][1], float* out) {
    F32 lanes[4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[i][part] = a[i][part][0];
      }
    }
    TreeSums(lanes, out);
  }
};

// Where operands are fp32, weights are times 2^-120 and activations times 2^118, and the chain is
// the true one times 1/4, which the scale of x makes good: nothing in it can overflow or become
// subnormal, so that every rounding is the same. Where they are bf16 the scale of x is part of x.
struct Fp8 {
  static constexpr bool kQuantized = true;
  static constexpr bool kWholeBlocks = false;
  static constexpr bool kSharedScale = true;
  static constexpr int kAccumulators = 1;
  static constexpr int kChains = 1;
  static constexpr int64_t kBlockBytes = 128;
  static constexpr int kOperands = 8 / kOperandColumns;
  struct Block {
    Operand w[kOperands];
    float scale;
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const uint8_t* bytes = row.bytes + block * kBlockBytes + part * (kLanes * 4);
    constexpr int kHalf = kOperands / 2;
    Operand halves[2][kHalf];
    ExpandFp8(bytes, halves[0]);
    ExpandFp8(bytes + 64, halves[1]);
    for (int j = 0; j < kHalf; ++j) {
      out.w[j] = halves[0][j];
      out.w[kHalf + j] = halves[1][j];
    }
    out.scale = Fp8Scale(row, block);
  }

  static float Factor(float scale, const float* x_scale) {
    return kOperandColumns == 1 ? *x_scale * scale : scale;
  }

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block* const (&b)[kColumns],
                                                const BlockRows<kRows>& rows,
                                                F32* const (&sums)[kRows][kColumns]) {
    F32 chains[kRows][kColumns];
    AddChains(b, 0, kOperands, rows.x, /*start=*/true, chains);
    for (int m = 0; m < kRows; ++m) {
      const F32 scale = Set(Factor(b[0]->scale, rows.scales[m]));
      for (int c = 0; c < kColumns; ++c) {
        *sums[m][c] = MulAdd(chains[m][c], scale, *sums[m][c]);
      }
    }
  }

  static void Finish(const F32 (&a)[4][kParts][1], float* out) { Fp4::Finish(a, out); }
};

// FP8 with F32 scales: accumulator 0 has the chains of the current block, accumulator 1 of part 0
// the sum of the blocks, the same number in every lane.
struct Fp8WholeBlocks : Fp8 {
  static constexpr bool kWholeBlocks = true;
  static constexpr int kAccumulators = 2;

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block* const (&b)[kColumns],
                                                const BlockRows<kRows>& rows,
                                                F32* const (&sums)[kRows][kColumns]) {
    F32 chains[kRows][kColumns];
    AddChains(b, 0, kOperands, rows.x, /*start=*/true, chains);
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kColumns; ++c) {
        *sums[m][c] = chains[m][c];
      }
    }
  }

  // Products whose parts of the block are done; factor: that of the block. The tree of the chains
  // is as much too small as the chains are.
  [[gnu::always_inline]] static void CloseBlock(float factor, F32* const (&sums)[4]) {
    F32 lanes[4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[i][part] = sums[i][2 * part];
      }
    }
    float trees[4];
    TreeSums(lanes, trees);
    for (int i = 0; i < 4; ++i) {
      sums[i][1] = sums[i][1] + Set(trees[i] * factor);
    }
  }
  [[gnu::always_inline]] static void CloseBlock(float factor, F32* const (&sums)[1]) {
    F32 lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = sums[0][2 * part];
    }
    sums[0][1] = sums[0][1] + Set(TreeSum(lanes) * factor);
  }

  static void Finish(const F32 (&a)[4][kParts][2], float* out) {
    for (int i = 0; i < 4; ++i) {
      out[i] = FirstLane(a[i][0][1]);
    }
  }
};

// One block of unquantised weights: operand (i, a) belongs to accumulator a, and its activations are
// x[m] + 32 i.
template <class Block, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddPlainChains(const Block* const (&b)[kColumns], int a,
                                                  const float* const (&x)[kRows],
                                                  F32 (&chains)[kRows][kColumns]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    F32 row[kRows];
    for (int m = 0; m < kRows; ++m) {
      row[m] = Load(x[m] + 32 * i);
      if constexpr (kColumns > 1) {
        Keep(row[m]);
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      F32 w = b[c]->w[i][a];
      if constexpr (kRows > 1) {
        Keep(w);
      }
      for (int m = 0; m < kRows; ++m) {
        chains[m][c] = MulAdd(w, row[m], chains[m][c]);
      }
    }
  }
}

template <class Block, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddPlain(const Block* const (&b)[kColumns],
                                            const BlockRows<kRows>& rows,
                                            F32* const (&sums)[kRows][kColumns]) {
  for (int a = 0; a < 2; ++a) {
    F32 chains[kRows][kColumns];
    const float* x[kRows];
    for (int m = 0; m < kRows; ++m) {
      x[m] = rows.x[m] + 16 * a;
      for (int c = 0; c < kColumns; ++c) {
        chains[m][c] = sums[m][c][a];
      }
    }
    AddPlainChains(b, a, x, chains);
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kColumns; ++c) {
        sums[m][c][a] = chains[m][c];
      }
    }
  }
}

// 32 lanes: accumulator 0 has the even columns, accumulator 1 the odd ones. The tree of 32 lanes by
// halves adds even and odd lanes in its last step only.
struct Bf16Pairs {
  static constexpr bool kQuantized = false;
  static constexpr bool kWholeBlocks = false;
  static constexpr bool kSharedScale = false;
  static constexpr int kAccumulators = 2;
  static constexpr int kChains = 1;
  static constexpr int64_t kBlockBytes = 256;
  struct Block {
    F32 w[4][2];
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const auto* numbers = reinterpret_cast<const uint16_t*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < 4; ++i) {
      const Pairs pairs = LoadBf16Pairs(numbers + 32 * i + 2 * kLanes * part);
      out.w[i][0] = pairs.even;
      out.w[i][1] = pairs.odd;
    }
  }

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block* const (&b)[kColumns],
                                                const BlockRows<kRows>& rows,
                                                F32* const (&sums)[kRows][kColumns]) {
    AddPlain(b, rows, sums);
  }

  static void Finish(const F32 (&a)[4][kParts][2], float* out) {
    F32 lanes[2][4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[0][i][part] = a[i][part][0];
        lanes[1][i][part] = a[i][part][1];
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

// FP8 weights as wo_a uses them: bf16(e4m3 * scale), then as bf16.
struct Fp8AsBf16 : Bf16Pairs {
  static constexpr int64_t kBlockBytes = 128;

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const F32 scale = Set(Fp8Scale(row, block));
    const F32 unscale = Set(0x1p120f);
    for (int i = 0; i < 4; ++i) {
      Pairs pairs;
      ExpandFp8Pairs(row.bytes + block * kBlockBytes + 32 * i + 2 * kLanes * part, pairs.even,
                     pairs.odd);
      out.w[i][0] = RoundToBf16(pairs.even * unscale * scale);
      out.w[i][1] = RoundToBf16(pairs.odd * unscale * scale);
    }
  }
};

// 32 lanes in natural order: accumulator 0 has lanes 0..15, accumulator 1 lanes 16..31.
struct Plain {
  static constexpr bool kQuantized = false;
  static constexpr bool kWholeBlocks = false;
  static constexpr bool kSharedScale = false;
  static constexpr int kAccumulators = 2;
  static constexpr int kChains = 1;
  static constexpr int64_t kBlockBytes = 512;
  using Block = Bf16Pairs::Block;

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const auto* numbers = reinterpret_cast<const float*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < 4; ++i) {
      out.w[i][0] = Load(numbers + 32 * i + kLanes * part);
      out.w[i][1] = Load(numbers + 32 * i + 16 + kLanes * part);
    }
  }

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block* const (&b)[kColumns],
                                                const BlockRows<kRows>& rows,
                                                F32* const (&sums)[kRows][kColumns]) {
    AddPlain(b, rows, sums);
  }

  static void Finish(const F32 (&a)[4][kParts][2], float* out) {
    F32 lanes[4][kParts];
    for (int i = 0; i < 4; ++i) {
      for (int part = 0; part < kParts; ++part) {
        lanes[i][part] = a[i][part][0] + a[i][part][1];
      }
    }
    TreeSums(lanes, out);
  }
};

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_PRODUCT_FORMATS_H_
