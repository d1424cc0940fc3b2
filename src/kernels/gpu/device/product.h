// Multiplies rows of activations by a row of weights, in the order of docs/numerics.md 2, by the
// threads of a group.
//
// A format has a type Input (the activations), and Part(), which returns to lane 0 of the group the
// sums of kTokens rows of activations over columns [first, end) of row i of the weight; the rows
// are first_row, first_row + 1, ..., none beyond the last. All threads of the wave meet in it.
#pragma once

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/codes.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/weight_scale.h"
#include "kernels/gpu/gpu.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

// Activations as E4M3 codes [rows, k], and a scale per 128 columns. The scale of a group with a NaN
// is NaN.
struct QuantizedRows {
  Matrix<uint8_t> codes;
  Matrix<float> scales;  // [rows, k / 128]
};

GPU_DEVICE int64_t RowInRange(int64_t row, int64_t n_rows) {
  return row < n_rows ? row : n_rows - 1;
}

// Unquantised activations: columns column, column + 1, ... of the rows.
struct PlainRows {
  Matrix<const Bf16> x;
  int64_t column = 0;
};

// Reads four bytes as a number, the first byte lowest, at any address.
GPU_DEVICE uint32_t LoadWord(const uint8_t* bytes) {
  if (reinterpret_cast<uintptr_t>(bytes) % 4 == 0) {
    uint32_t word = 0;
    __builtin_memcpy(&word, __builtin_assume_aligned(bytes, 4), 4);
    return word;
  }
  return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16 |
         static_cast<uint32_t>(bytes[3]) << 24;
}

GPU_DEVICE const uint8_t* WeightRow(const Weight& w, int64_t i) {
  return reinterpret_cast<const uint8_t*>(w.data) + i * w.RowBytes();
}

// Returns column j of the eight that lane c owns in the block of 128 columns from `first` on.
GPU_DEVICE int64_t LaneColumn(int64_t first, int64_t j) {
  return first + 64 * (j / 4) + 4 * GroupLane() + j % 4;
}

// kFp8 weights, quantised activations.
struct Fp8Product {
  using Input = QuantizedRows;

  template <int kTokens>
  GPU_DEVICE static void Part(const Input& x, int64_t first_row, const Weight& w, int64_t i,
                              int64_t first, int64_t end, float* sums) {
    const uint8_t* const weights = WeightRow(w, i);
    const bool exact_scales = w.scale_format == ScaleFormat::kE8m0;
    float lane[kTokens] = {};
    for (int64_t block = first / kFp8Block; block < end / kFp8Block; ++block) {
      const int64_t low = LaneColumn(block * kFp8Block, 0);
      const int64_t high = LaneColumn(block * kFp8Block, 4);
      const uint32_t words[2] = {LoadWord(weights + low), LoadWord(weights + high)};
      float b[8];
      GPU_UNROLL
      for (int j = 0; j < 8; ++j) {
        b[j] = E4m3ToFloat(static_cast<uint8_t>(words[j / 4] >> (8 * (j % 4))));
      }
      const float weight_scale = Fp8Scale(w, i, block);
      GPU_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const int64_t row = RowInRange(first_row + t, x.codes.rows);
        const uint8_t* const codes = x.codes.Row(row);
        const uint32_t a[2] = {LoadWord(codes + low), LoadWord(codes + high)};
        float chain = 0.0f;
        GPU_UNROLL
        for (int j = 0; j < 8; ++j) {
          const float number = E4m3ToFloat(static_cast<uint8_t>(a[j / 4] >> (8 * (j % 4))));
          chain = j == 0 ? number * b[0] : Fma(number, b[j], chain);
        }
        const float scale = x.scales.Row(row)[block] * weight_scale;
        // Multiplying by an arbitrary scale rounds once per block, by a power of two not at all.
        lane[t] = exact_scales ? Fma(chain, scale, lane[t]) : lane[t] + TreeOfGroup(chain) * scale;
      }
    }
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = exact_scales ? TreeOfGroup(lane[t]) : lane[t];
    }
  }
};

// kFp4 weights, quantised activations. Lane L has columns 8 L to 8 L + 7 of every 128; their sum is
// an integer below 2^25 times 2^-10, rounded once.
struct Fp4Product {
  using Input = QuantizedRows;

  template <int kTokens>
  GPU_DEVICE static void Part(const Input& x, int64_t first_row, const Weight& w, int64_t i,
                              int64_t first, int64_t end, float* sums) {
    const uint8_t* const weights = WeightRow(w, i);
    const uint8_t* const scales = reinterpret_cast<const uint8_t*>(w.scales) + i * w.ScaleColumns();
    float lane[kTokens] = {};
    for (int64_t block = first / kFp8Block; block < end / kFp8Block; ++block) {
      const int64_t column = block * kFp8Block + 8 * GroupLane();
      const uint32_t nibbles = LoadWord(weights + column / 2);
      const uint8_t scale_byte = scales[column / kFp4Block];
      const float weight_scale = scale_byte == 0 ? 0.0f : E8m0ToFloat(scale_byte);
      GPU_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const int64_t row = RowInRange(first_row + t, x.codes.rows);
        const uint8_t* const codes = x.codes.Row(row) + column;
        const uint32_t a[2] = {LoadWord(codes), LoadWord(codes + 4)};
        int32_t sum = 0;
        GPU_UNROLL
        for (int j = 0; j < 8; ++j) {
          sum += E4m3Integer(a[j / 4] >> (8 * (j % 4))) * E2m1Integer(nibbles >> (4 * j));
        }
        const float scale = x.scales.Row(row)[block] * weight_scale;
        lane[t] = Fma(static_cast<float>(sum) * 0x1p-10f, scale, lane[t]);
      }
    }
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = TreeOfGroup(lane[t]);
    }
  }
};

// kF32 and kBf16 weights, unquantised activations: 32 lanes, of which a thread has two.
struct PlainProduct {
  using Input = PlainRows;

  GPU_DEVICE static float Number(const Weight& w, const uint8_t* row, int64_t k) {
    return w.format == WeightFormat::kF32 ? reinterpret_cast<const float*>(row)[k]
                                          : ToFloat(reinterpret_cast<const Bf16*>(row)[k]);
  }

  template <int kTokens>
  GPU_DEVICE static void Part(const Input& x, int64_t first_row, const Weight& w, int64_t i,
                              int64_t first, int64_t end, float* sums) {
    const uint8_t* const weights = WeightRow(w, i);
    float low[kTokens] = {};
    float high[kTokens] = {};
    for (int64_t k = first + GroupLane(); k < end; k += 2 * kGroupThreads) {
      const bool has_high = k + kGroupThreads < end;
      const float low_weight = Number(w, weights, k);
      const float high_weight = has_high ? Number(w, weights, k + kGroupThreads) : 0.0f;
      GPU_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Bf16* const a = x.x.Row(RowInRange(first_row + t, x.x.rows)) + x.column;
        low[t] = Fma(ToFloat(a[k]), low_weight, low[t]);
        if (has_high) {
          high[t] = Fma(ToFloat(a[k + kGroupThreads]), high_weight, high[t]);
        }
      }
    }
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = TreeOfGroup(low[t] + high[t]);
    }
  }
};

// kFp8 and kBf16 weights of GroupedLinear, unquantised activations (docs/numerics.md 2). Numbers
// below 2^-50 count as zero. FP8 weights are bf16(e4m3 * factor); the chain is multiplied by the
// scale's power of two at its end.
struct BlockProduct {
  using Input = PlainRows;

  GPU_DEVICE static float Counted(Bf16 number) {
    const float value = ToFloat(number);
    const float magnitude = value < 0.0f ? -value : value;
    return magnitude < 0x1p-50f ? 0.0f : value;
  }

  template <int kTokens>
  GPU_DEVICE static void Part(const Input& x, int64_t first_row, const Weight& w, int64_t i,
                              int64_t first, int64_t end, float* sums) {
    const uint8_t* const weights = WeightRow(w, i);
    const bool is_fp8 = w.format == WeightFormat::kFp8;
    float lane[kTokens] = {};
    for (int64_t block = first / kFp8Block; block < end / kFp8Block; ++block) {
      float power = 1.0f;
      float factor = 1.0f;
      if (is_fp8) {
        power = Fp8Scale(w, i, block);
        if (w.scale_format == ScaleFormat::kF32) {
          const uint32_t bits = __builtin_bit_cast(uint32_t, power);
          power = __builtin_bit_cast(float, bits & 0x7F800000u);
          factor = __builtin_bit_cast(float, (bits & 0x807FFFFFu) | 0x3F800000u);
        }
      }
      float b[8];
      GPU_UNROLL
      for (int j = 0; j < 8; ++j) {
        const int64_t k = LaneColumn(block * kFp8Block, j);
        b[j] = is_fp8 ? RoundToBf16(E4m3ToFloat(weights[k]) * factor)
                      : Counted(reinterpret_cast<const Bf16*>(weights)[k]);
      }
      GPU_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Bf16* const a = x.x.Row(RowInRange(first_row + t, x.x.rows)) + x.column;
        float chain = 0.0f;
        GPU_UNROLL
        for (int j = 0; j < 8; ++j) {
          const float number = Counted(a[LaneColumn(block * kFp8Block, j)]);
          chain = j == 0 ? number * b[0] : Fma(number, b[j], chain);
        }
        lane[t] = is_fp8 ? Fma(chain, power, lane[t]) : lane[t] + chain;
      }
    }
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = TreeOfGroup(lane[t]);
    }
  }
};

// Returns to lane 0 of the group the products of kTokens rows of x with row i of the weight, whose
// parts of k are summed separately and added by halves.
template <class Format, int kTokens>
GPU_DEVICE void Products(const typename Format::Input& x, int64_t first_row, const Weight& w,
                         int64_t i, float* sums) {
  if (w.k_parts == 1) {
    Format::template Part<kTokens>(x, first_row, w, i, 0, w.k, sums);
    return;
  }
  // Lane p holds part p.
  const int64_t width = w.k / w.k_parts;
  for (int part = 0; part < w.k_parts; ++part) {
    float of_part[kTokens];
    Format::template Part<kTokens>(x, first_row, w, i, part * width, (part + 1) * width, of_part);
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = GroupLane() == part ? of_part[t] : part == 0 ? 0.0f : sums[t];
    }
  }
  for (int mask = w.k_parts / 2; mask > 0; mask /= 2) {
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = sums[t] + ShuffleXor(sums[t], mask);
    }
  }
}

}  // namespace fathom::kernels::gpu
