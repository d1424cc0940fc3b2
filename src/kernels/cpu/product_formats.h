// How each weight format is expanded and summed, block of 128 columns by block (product.cc).
//
// A format names, for one part of the 16 lanes:
//   Block         the weights of a block, expanded in registers, used by all rows of activations;
//   kAccumulators registers per part that live from block to block;
//   Expand        loads a block;
//   Accumulate    adds the block's products of kColumns weight rows with one row of prepared
//                 activations, each number of which is loaded once;
//   Finish        the sum of all lanes.
// With kWholeBlocks it also has CloseBlock, which is called when all parts of a block are done.
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

// A load that kColumns multiplications share.
template <int kColumns>
[[gnu::always_inline]] inline F32 LoadShared(const float* x) {
  F32 value = Load(x);
  if constexpr (kColumns > 1) {
    Keep(value);
  }
  return value;
}

struct Fp4 {
  static constexpr bool kQuantized = true;
  static constexpr bool kWholeBlocks = false;
  static constexpr int kAccumulators = 1;
  static constexpr int64_t kBlockBytes = 64;
  struct Block {
    F32 w[8];
    F32 scale;
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    ExpandFp4(row.bytes + block * kBlockBytes + part * (kLanes * 4), out.w);
    out.scale = ExpandFp4Scales(row.scales + block * 4, part);
  }

  // Sums of four products are exact, the sum of two such sums is rounded once. Starting from +0
  // keeps a sum of zeros +0, as that of integers is.
  template <int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block (&b)[kColumns], const float* x,
                                                float x_scale, F32* const (&sums)[kColumns]) {
    F32 low[kColumns];
    F32 high[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      low[c] = Zero();
      high[c] = Zero();
    }
    for (int j = 0; j < 4; ++j) {
      const F32 x_low = LoadShared<kColumns>(x + 16 * j);
      const F32 x_high = LoadShared<kColumns>(x + 64 + 16 * j);
      for (int c = 0; c < kColumns; ++c) {
        low[c] = MulAdd(b[c].w[j], x_low, low[c]);
        high[c] = MulAdd(b[c].w[4 + j], x_high, high[c]);
      }
    }
    const F32 scale = Set(x_scale);
    for (int c = 0; c < kColumns; ++c) {
      sums[c][0] = MulAdd(low[c] + high[c], scale * b[c].scale, sums[c][0]);
    }
  }

  static float Finish(const F32 (&a)[kParts][1]) {
    F32 lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = a[part][0];
    }
    return TreeSum(lanes);
  }
};

struct Fp8 {
  static constexpr bool kQuantized = true;
  static constexpr bool kWholeBlocks = false;
  static constexpr int kAccumulators = 1;
  static constexpr int64_t kBlockBytes = 128;
  struct Block {
    F32 w[2][4];
    float scale;
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const uint8_t* bytes = row.bytes + block * kBlockBytes + part * (kLanes * 4);
    ExpandFp8(bytes, out.w[0]);
    ExpandFp8(bytes + 64, out.w[1]);
    out.scale = Fp8Scale(row, block);
  }

  // With weights times 2^-120 and activations times 2^118 the chain is the true one times 1/4:
  // nothing in it can overflow or become subnormal, so that every rounding is the same.
  template <int kColumns>
  [[gnu::always_inline]] static void Chains(const Block (&b)[kColumns], const float* x,
                                            F32 (&chain)[kColumns]) {
    for (int j = 0; j < 8; ++j) {
      const F32 x_j = LoadShared<kColumns>(x + 16 * j);
      for (int c = 0; c < kColumns; ++c) {
        const F32 w = b[c].w[j / 4][j % 4];
        chain[c] = j == 0 ? w * x_j : MulAdd(w, x_j, chain[c]);
      }
    }
  }

  template <int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block (&b)[kColumns], const float* x,
                                                float x_scale, F32* const (&sums)[kColumns]) {
    F32 chain[kColumns];
    Chains<kColumns>(b, x, chain);
    for (int c = 0; c < kColumns; ++c) {
      sums[c][0] = MulAdd(chain[c] * Set(4.0f), Set(x_scale * b[c].scale), sums[c][0]);
    }
  }

  static float Finish(const F32 (&a)[kParts][1]) { return Fp4::Finish(a); }
};

// FP8 with F32 scales: accumulator 0 has the chains of the current block, accumulator 1 of part 0
// the sum of the blocks, the same number in every lane.
struct Fp8WholeBlocks : Fp8 {
  static constexpr bool kWholeBlocks = true;
  static constexpr int kAccumulators = 2;

  template <int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block (&b)[kColumns], const float* x, float,
                                                F32* const (&sums)[kColumns]) {
    F32 chain[kColumns];
    Chains<kColumns>(b, x, chain);
    for (int c = 0; c < kColumns; ++c) {
      sums[c][0] = chain[c];
    }
  }

  // The tree of the chains is the true one times 1/4 as well.
  [[gnu::always_inline]] static void CloseBlock(const WeightRow& row, int64_t block, float x_scale,
                                                F32 (&a)[kParts][2]) {
    F32 lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = a[part][0];
    }
    const float tree = TreeSum(lanes) * 4.0f;
    a[0][1] = a[0][1] + Set(tree * (x_scale * Fp8Scale(row, block)));
  }

  static float Finish(const F32 (&a)[kParts][2]) { return FirstLane(a[0][1]); }
};

// 32 lanes: accumulator 0 has the even columns, accumulator 1 the odd ones. The tree of 32 lanes by
// halves adds even and odd lanes in its last step only.
struct Bf16Pairs {
  static constexpr bool kQuantized = false;
  static constexpr bool kWholeBlocks = false;
  static constexpr int kAccumulators = 2;
  static constexpr int64_t kBlockBytes = 256;
  struct Block {
    Pairs w[4];
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const auto* numbers = reinterpret_cast<const uint16_t*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < 4; ++i) {
      out.w[i] = LoadBf16Pairs(numbers + 32 * i + 2 * kLanes * part);
    }
  }

  template <int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block (&b)[kColumns], const float* x, float,
                                                F32* const (&sums)[kColumns]) {
    for (int i = 0; i < 4; ++i) {
      const F32 first = LoadShared<kColumns>(x + 32 * i);
      const F32 second = LoadShared<kColumns>(x + 32 * i + 16);
      for (int c = 0; c < kColumns; ++c) {
        sums[c][0] = MulAdd(b[c].w[i].even, first, sums[c][0]);
        sums[c][1] = MulAdd(b[c].w[i].odd, second, sums[c][1]);
      }
    }
  }

  static float Finish(const F32 (&a)[kParts][2]) {
    F32 even[kParts];
    F32 odd[kParts];
    for (int part = 0; part < kParts; ++part) {
      even[part] = a[part][0];
      odd[part] = a[part][1];
    }
    return TreeSum(even) + TreeSum(odd);
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
      out.w[i] = {RoundToBf16(pairs.even * unscale * scale),
                  RoundToBf16(pairs.odd * unscale * scale)};
    }
  }
};

// 32 lanes in natural order: accumulator 0 has lanes 0..15, accumulator 1 lanes 16..31.
struct Plain {
  static constexpr bool kQuantized = false;
  static constexpr bool kWholeBlocks = false;
  static constexpr int kAccumulators = 2;
  static constexpr int64_t kBlockBytes = 512;
  struct Block {
    F32 w[4][2];
  };

  [[gnu::always_inline]] static void Expand(const WeightRow& row, int64_t block, int part,
                                            Block& out) {
    const auto* numbers = reinterpret_cast<const float*>(row.bytes + block * kBlockBytes);
    for (int i = 0; i < 4; ++i) {
      out.w[i][0] = Load(numbers + 32 * i + kLanes * part);
      out.w[i][1] = Load(numbers + 32 * i + 16 + kLanes * part);
    }
  }

  template <int kColumns>
  [[gnu::always_inline]] static void Accumulate(const Block (&b)[kColumns], const float* x, float,
                                                F32* const (&sums)[kColumns]) {
    for (int i = 0; i < 4; ++i) {
      const F32 first = LoadShared<kColumns>(x + 32 * i);
      const F32 second = LoadShared<kColumns>(x + 32 * i + 16);
      for (int c = 0; c < kColumns; ++c) {
        sums[c][0] = MulAdd(b[c].w[i][0], first, sums[c][0]);
        sums[c][1] = MulAdd(b[c].w[i][1], second, sums[c][1]);
      }
    }
  }

  static float Finish(const F32 (&a)[kParts][2]) {
    F32 lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = a[part][0] + a[part][1];
    }
    return TreeSum(lanes);
  }
};

}  // namespace
}  // namespace fathom::KERNEL_ISA

#endif  // FATHOM_KERNELS_CPU_PRODUCT_FORMATS_H_
