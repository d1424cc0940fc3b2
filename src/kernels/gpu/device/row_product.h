// Products of at most eight rows of activations with rows of a weight, in the order of
// docs/numerics.md 2, by the threads of a block.
//
// The block has up to 32 rows of the weight. Its quads (lane_rows.h) take blocks of 128 columns in
// any order and keep the lanes of these blocks in shared memory; then a quad for each row of the
// weight and of the activations adds the lanes block by block. So a block of threads reads many
// columns at once, and each weight is loaded and widened once for all rows of activations.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/device/lane_rows.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/weight_scale.h"
#include "kernels/gpu/device/widen.h"
#include "kernels/gpu/gpu.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

inline constexpr int kQuadRows = 2;  // rows of the weight for which a quad reads activations once
inline constexpr int kKeptLanes = 512;  // rows of 16 lanes in shared memory
inline constexpr int kMostParts = 8;    // of k

// Returns 16 bytes, at an address that is a multiple of 16 or, as in a mapped file, of 8.
template <bool kAligned>
GPU_DEVICE FourWords LoadVector(const uint8_t* bytes) {
  if constexpr (kAligned) {
    return *reinterpret_cast<const FourWords*>(bytes);
  } else {
    const auto* const pairs = reinterpret_cast<const TwoWords*>(bytes);
    return {{pairs[0].words[0], pairs[0].words[1], pairs[1].words[0], pairs[1].words[1]}};
  }
}

GPU_DEVICE bool IsAligned(const Weight& w) {
  return reinterpret_cast<uintptr_t>(w.data) % sizeof(FourWords) == 0;
}

// kFp8: lane c has the columns 4 c + 0 ... 3 and 64 + 4 c + 0 ... 3.
struct Fp8Rows {
  using Vector = FourFloats;
  static constexpr int64_t kBlockBytes = kFp8Block;
  static constexpr int kVectors = kNumberVectors * kQuadThreads;  // of a block of columns
  static constexpr bool kOneScale = true;  // for all rows of the weight in a block of threads

  GPU_DEVICE static const Vector* Vectors(const LaneRows& x) { return x.numbers; }
  // Sets the lanes of the thread for a block of columns. weights: the first vector of the thread in
  // the block of each row of the weight; x: the same of the activations, whose rows are at offsets.
  // lanes: those of a row of the weight with each row of activations, then of the next.
  template <bool kAligned, int kTokens>
  GPU_DEVICE static void MakeLanes(const uint8_t* weights, int row_bytes, const Vector* x,
                                   const int (&row_offsets)[kTokens],
                                   FourFloats (&lanes)[kQuadRows * kTokens]) {
    // More rows, or loads, would need too many registers.
    constexpr int kUnrolledHalves = kAligned && kTokens <= 2 ? 2 : 1;
    GPU_UNROLL
    for (int i = 0; i < kQuadRows * kTokens * kQuadLanes; ++i) {
      lanes[i / kQuadLanes].numbers[i % kQuadLanes] = -0.0f;  // to which the first product is added
    }
    GPU_UNROLL_BY(kUnrolledHalves)
    for (int half = 0; half < 2; ++half) {
      FourWords codes[kQuadRows];
      GPU_UNROLL
      for (int row = 0; row < kQuadRows; ++row) {
        codes[row] = LoadVector<kAligned>(weights + row * row_bytes + 64 * half);
      }
      GPU_UNROLL
      for (int lane = 0; lane < kQuadLanes; ++lane) {
        float four[kQuadRows][4];
        GPU_UNROLL
        for (int row = 0; row < kQuadRows; ++row) {
          WidenE4m3(codes[row].words[lane], four[row]);
        }
        GPU_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          const FourFloats numbers = x[row_offsets[t] + (kQuadLanes * half + lane) * kQuadThreads];
          GPU_UNROLL
          for (int row = 0; row < kQuadRows; ++row) {
            float& chain = lanes[row * kTokens + t].numbers[lane];
            GPU_UNROLL
            for (int j = 0; j < 4; ++j) {
              chain = Fma(numbers.numbers[j], four[row][j], chain);
            }
          }
        }
      }
    }
    if (!ConvertsE4m3()) {
      GPU_UNROLL
      for (int i = 0; i < kQuadRows * kTokens * kQuadLanes; ++i) {
        float& chain = lanes[i / kQuadLanes].numbers[i % kQuadLanes];
        chain = chain * E4m3Factor();
      }
    }
  }
};

// kFp4: lane c has the columns 8 c + 0 ... 7, whose sum is an integer below 2^25 times 2^-10,
// rounded once.
struct Fp4Rows {
  using Vector = FourWords;
  static constexpr int64_t kBlockBytes = kFp8Block / 2;
  static constexpr int kVectors = kDigitVectors * kQuadThreads;
  static constexpr bool kOneScale = false;

  GPU_DEVICE static const Vector* Vectors(const LaneRows& x) { return x.digits; }
  // Returns the scale of an E8M0 byte, one for each row and 32 columns, or kQuadLanes lanes: byte 0
  // counts as zero.
  GPU_DEVICE static float Scale(uint8_t exponent) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(exponent) << 23);
  }

  template <bool kAligned, int kTokens>
  GPU_DEVICE static void MakeLanes(const uint8_t* weights, int row_bytes, const Vector* x,
                                   const int (&row_offsets)[kTokens],
                                   FourFloats (&lanes)[kQuadRows * kTokens]) {
    uint32_t widened[kQuadRows][2 * kQuadLanes];
    GPU_UNROLL
    for (int row = 0; row < kQuadRows; ++row) {
      const FourWords codes = LoadVector<kAligned>(weights + row * row_bytes);
      GPU_UNROLL
      for (int lane = 0; lane < kQuadLanes; ++lane) {
        WidenE2m1(codes.words[lane], widened[row][2 * lane], widened[row][2 * lane + 1]);
      }
    }
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      uint32_t words[4 * kDigitVectors];
      GPU_UNROLL
      for (int v = 0; v < kDigitVectors; ++v) {
        const FourWords vector = x[row_offsets[t] + v * kQuadThreads];
        GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          words[4 * v + i] = vector.words[i];
        }
      }
      GPU_UNROLL
      for (int i = 0; i < kQuadRows * kQuadLanes; ++i) {
        const int row = i / kQuadLanes;
        const int lane = i % kQuadLanes;
        const int32_t sum = Sum(words + kDigitWords * lane, widened[row] + 2 * lane);
        lanes[row * kTokens + t].numbers[lane] = static_cast<float>(sum) * 0x1p-10f;
      }
    }
  }

  // Returns the sum of the products of a lane.
  GPU_DEVICE static int32_t Sum(const uint32_t* digits, const uint32_t* weights) {
    int32_t sums[3] = {static_cast<int32_t>(digits[6]), 0, 0};
    GPU_UNROLL
    for (int i = 0; i < 6; ++i) {
      sums[i / 2] = DotBytes(digits[i], weights[i % 2], sums[i / 2]);
    }
    return sums[0] + (sums[1] + sums[2] * 256) * 256;
  }
};

// Returns the tree of 16 lanes of a quad to all of its threads. All threads of the wave meet.
GPU_DEVICE float TreeOfQuad(const FourFloats& lanes) {
  float sums[kQuadLanes];
  GPU_UNROLL
  for (int i = 0; i < kQuadLanes; ++i) {
    const float sum = lanes.numbers[i] + ShuffleXor(lanes.numbers[i], 2);
    sums[i] = sum + ShuffleXor(sum, 1);
  }
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The rows of a weight that a block of threads multiplies.
struct WeightRows {
  Weight w;
  int64_t first = 0;
  int shift = 0;  // 2^shift rows, the last of them possibly beyond the weight

  GPU_DEVICE int Count() const { return 1 << shift; }
  GPU_DEVICE int Blocks() const { return static_cast<int>(w.k / kFp8Block); }
  // Returns the index of row i in the weight.
  GPU_DEVICE int64_t Row(int i) const { return first + i < w.n ? first + i : w.n - 1; }
  GPU_DEVICE bool HasExactScales() const { return w.scale_format == ScaleFormat::kE8m0; }
};

// Computes the products of kTokens rows of activations with the rows of a weight by the threads of
// a block. row_of(t): the row of activations t. store(t, i, sum): takes the product with row
// rows.first + i, in one thread.
template <class Format, int kTokens>
class RowProduct {
 public:
  template <class RowOf, class Store>
  GPU_DEVICE static void Multiply(const LaneRows& x, const RowOf& row_of, const WeightRows& rows,
                                  const Store& store) {
    GPU_SHARED(FourFloats, kept, kKeptLanes * kQuadThreads);
    GPU_SHARED(float, part_sums, kMostParts* kMostItems);
    GPU_SHARED(float, scales, kMostScales);
    const int part_blocks = rows.Blocks() / rows.w.k_parts;
    const int most_blocks = (kKeptLanes >> rows.shift) / kTokens;
    for (int part = 0; part < rows.w.k_parts; ++part) {
      Chains chains = {};
      const int end = (part + 1) * part_blocks;
      for (int first = part * part_blocks; first < end; first += most_blocks) {
        const int n = end - first < most_blocks ? end - first : most_blocks;
        SyncBlock();
        GPU_NO_UNROLL
        for (int t = 0; t < kTokens; t += kTogether) {
          if (IsAligned(rows.w)) {
            KeepLanes<true>(x, row_of, t, rows, first, n, kept);
          } else {
            KeepLanes<false>(x, row_of, t, rows, first, n, kept);
          }
        }
        KeepScales(x, row_of, rows, first, n, scales);
        SyncBlock();
        if (rows.HasExactScales()) {
          AddLanes<true>(rows, first, n, kept, scales, chains);
        } else if constexpr (Format::kOneScale) {
          AddLanes<false>(rows, first, n, kept, scales, chains);
        }
      }
      KeepPart(rows, chains, part, part_sums);
    }
    SyncBlock();
    for (int i = ThreadX(); i < kTokens << rows.shift; i += BlockThreads()) {
      for (int half = rows.w.k_parts / 2; half > 0; half /= 2) {
        for (int part = 0; part < half; ++part) {
          const int sum = part * kMostItems + i;
          part_sums[sum] = part_sums[sum] + part_sums[sum + half * kMostItems];
        }
      }
      store(i >> rows.shift, i & (rows.Count() - 1), part_sums[i]);
    }
  }

 private:
  // Rows of activations for which weights are widened once: more would need too many registers.
  static constexpr int kTogether = kTokens < 4 ? kTokens : 4;
  static constexpr int kMostItems = kTokens << MostProductShift(kTokens);
  static constexpr int kQuads = kMaxBlockThreads / kQuadThreads;
  // The sums of a quad: of the items quad + k * kQuads, where an item is a row of the activations
  // and one of the weight.
  static constexpr int kItems = (kMostItems + kQuads - 1) / kQuads;
  struct Chains {
    FourFloats sums[kItems];
  };
  static constexpr int kMostScales = kKeptLanes >> kLeastProductShift;  // of a row and a block

  GPU_DEVICE static int Quad() { return ThreadX() / kQuadThreads; }
  GPU_DEVICE static int QuadThread() { return ThreadX() % kQuadThreads; }
  // Returns the place of the thread's lanes for an item of a block of columns.
  GPU_DEVICE static int KeptPlace(const WeightRows& rows, int block, int item) {
    return ((block * kTokens << rows.shift) + item) * kQuadThreads + QuadThread();
  }
  // Returns item k of the quad, or another if it has fewer.
  GPU_DEVICE static int Item(const WeightRows& rows, int k) {
    return (Quad() + k * kQuads) & ((kTokens << rows.shift) - 1);
  }

  // Keeps the lanes of n blocks of columns for the rows of activations t, t + 1, ...,
  // t + kTogether - 1.
  template <bool kAligned, class RowOf, class Kept>
  GPU_DEVICE static void KeepLanes(const LaneRows& x, const RowOf& row_of, int t,
                                   const WeightRows& rows, int first, int n, Kept kept) {
    const int shift = rows.shift - 1;  // of the pairs of rows
    const int row = kQuadRows * (Quad() & ((1 << shift) - 1));
    int block = Quad() >> shift;
    const uint8_t* weights = reinterpret_cast<const uint8_t*>(rows.w.data) +
                             sizeof(FourWords) * QuadThread() +
                             (rows.Row(row) * rows.Blocks() + first + block) * Format::kBlockBytes;
    const int row_bytes = static_cast<int>((rows.Row(row + 1) - rows.Row(row)) * rows.w.RowBytes());
    const typename Format::Vector* vectors =
        Format::Vectors(x) + (row_of(t) * rows.Blocks() + first + block) * Format::kVectors +
        QuadThread();
    int row_offsets[kTogether] = {};
    GPU_UNROLL
    for (int i = 1; i < kTogether; ++i) {
      row_offsets[i] =
          static_cast<int>((row_of(t + i) - row_of(t)) * rows.Blocks()) * Format::kVectors;
    }
    for (const int step = kQuads >> shift; block < n; block += step) {
      FourFloats lanes[kQuadRows * kTogether];
      Format::template MakeLanes<kAligned, kTogether>(weights, row_bytes, vectors, row_offsets,
                                                      lanes);
      GPU_UNROLL
      for (int i = 0; i < kQuadRows * kTogether; ++i) {
        const int item = (t + i % kTogether) << rows.shift;
        kept[KeptPlace(rows, block, item + row + i / kTogether)] = lanes[i];
      }
      weights += step * Format::kBlockBytes;
      vectors += step * Format::kVectors;
    }
  }

  // Keeps the scales of each row of activations and block of columns: where all rows of the weight
  // have the same, the products of both.
  template <class RowOf, class Scales>
  GPU_DEVICE static void KeepScales(const LaneRows& x, const RowOf& row_of, const WeightRows& rows,
                                    int first, int n, Scales scales) {
    const int i = ThreadX();
    if (i >= n * kTokens) return;
    const int64_t block = first + i / kTokens;
    const float scale = x.scales[row_of(i % kTokens) * rows.Blocks() + block];
    scales[i] = Format::kOneScale ? scale * Fp8Scale(rows.w, rows.first, block) : scale;
  }

  // Adds the lanes of n blocks of columns to the chains of the thread. Multiplying by a power of
  // two (kExact) rounds nothing; by another scale, of FP8 weights, the tree of a block's lanes is
  // rounded.
  template <bool kExact, class Kept, class Scales>
  GPU_DEVICE static void AddLanes(const WeightRows& rows, int first, int n, Kept kept,
                                  Scales scales, Chains& chains) {
    GPU_UNROLL
    for (int k = 0; k < kItems; ++k) {
      const int item = Item(rows, k);
      const uint8_t* exponents =
          reinterpret_cast<const uint8_t*>(rows.w.scales) +
          (rows.Row(item & (rows.Count() - 1)) * rows.Blocks() + first) * kQuadThreads +
          QuadThread();
      int place = KeptPlace(rows, 0, item);
      FourFloats& sums = chains.sums[k];
      constexpr int kUnrolledBlocks = kExact ? 4 : 1;  // threads meet in the other sums
      GPU_UNROLL_BY(kUnrolledBlocks)
      for (int i = item >> rows.shift; i < n * kTokens; i += kTokens) {
        const FourFloats lanes = kept[place];
        place += kTokens * kQuadThreads << rows.shift;
        float scale = scales[i];
        if constexpr (!Format::kOneScale) {
          scale = scale * Format::Scale(*exponents);
          exponents += kQuadThreads;
        }
        if constexpr (kExact) {
          GPU_UNROLL
          for (int lane = 0; lane < kQuadLanes; ++lane) {
            sums.numbers[lane] = Fma(lanes.numbers[lane], scale, sums.numbers[lane]);
          }
        } else {
          sums.numbers[0] = sums.numbers[0] + TreeOfQuad(lanes) * scale;
        }
      }
    }
  }

  // Keeps the sums of a part of k, by the first thread of each quad.
  template <class Kept>
  GPU_DEVICE static void KeepPart(const WeightRows& rows, const Chains& chains, int part,
                                  Kept part_sums) {
    GPU_UNROLL
    for (int k = 0; k < kItems; ++k) {
      const float tree = TreeOfQuad(chains.sums[k]);
      const int item = Quad() + k * kQuads;
      if (item < kTokens << rows.shift && QuadThread() == 0) {
        part_sums[part * kMostItems + item] =
            rows.HasExactScales() ? tree : chains.sums[k].numbers[0];
      }
    }
  }
};

}  // namespace fathom::kernels::gpu
