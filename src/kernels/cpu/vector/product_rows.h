// Rows of weights and activations, and the end of a sum: shared by both kinds of products.
#pragma once

#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_integers.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kProductBlock;
constexpr int kMaxParts = 8;  // parts of k

// One prepared row of activations, and its scales.
struct ProductRow {
  const float* x;
  const float* scales;
};

// Returns the floats of a prepared row per block.
template <BlockFormat Format>
constexpr int64_t kBlockFloats = kBlock / (SumsByBlocks<Format> ? kOperandColumns : 1);
template <>
inline constexpr int64_t kBlockFloats<Fp4Integers> = Fp4Integers::kXFloats;
template <>
inline constexpr int64_t kBlockFloats<Fp4Powers> = Fp4Integers::kXFloats;

template <BlockFormat Format>
ProductRow RowOfActivations(const cpu::Product& product, int64_t i) {
  const int64_t row = product.rows_in == nullptr ? i : product.rows_in[i];
  return {product.x + row * product.x_stride,
          SumsByBlocks<Format> ? product.x_scales + row * product.scale_stride : nullptr};
}

inline WeightRow WeightRowAt(const cpu::Product& product, int64_t n) {
  const int64_t scale_bytes =
      product.scale_columns * (product.e8m0_scales ? 1 : static_cast<int64_t>(sizeof(float)));
  // FP8 scales belong to 128 weight rows, FP4 scales to one row.
  const int64_t rows_per_scale = product.format == cpu::ProductFormat::kFp4 ? 1 : kBlock;
  const uint8_t* scales =
      product.scales == nullptr ? nullptr : product.scales + n / rows_per_scale * scale_bytes;
  return {product.weights + n * product.row_bytes, scales, product.e8m0_scales};
}

// Prefetch distance, into the second-level cache: the first-level cache has room for a shorter
// distance only, which does not cover the time of a page walk. Measured.
constexpr int64_t kPrefetchBytes = 4096;
// The distance of a second prefetch with one or two rows, into the first-level cache: it pays where
// a block takes few instructions for its bytes. Measured.
constexpr int64_t kSecondPrefetchBytes = 1024;

// Prefetches the bytes after `line` of a stream of weights; kTwice: into both caches.
template <bool kTwice>
[[gnu::always_inline]] inline void PrefetchAhead(const uint8_t* line) {
  __builtin_prefetch(line + kPrefetchBytes, 0, 2);
  if constexpr (kTwice) {
    __builtin_prefetch(line + kSecondPrefetchBytes, 0, 3);
  }
}

template <int kNumber>
struct Constant {
  static constexpr int kValue = kNumber;
};

// Calls call(Constant<count>()); count: 1 to kMost.
template <int kMost, class Call>
[[gnu::always_inline]] inline void WithConstant(int64_t count, const Call& call) {
  if constexpr (kMost > 1) {
    if (count < kMost) return WithConstant<kMost - 1>(count, call);
  }
  call(Constant<kMost>());
}

inline bool BytesWithin(const uint8_t* bytes, int64_t count, uint8_t least, uint8_t most) {
  uint8_t smallest = least;
  uint8_t largest = most;
  for (int64_t i = 0; i < count; ++i) {
    smallest = bytes[i] < smallest ? bytes[i] : smallest;
    largest = bytes[i] > largest ? bytes[i] : largest;
  }
  return smallest == least && largest == most;
}

// The most columns that are summed together, with a scale in common if the format shares it.
constexpr int kGroup = 4;
template <BlockFormat Format, int64_t kMost = kGroup>
int GroupSize(int64_t n, int64_t end) {
  const int64_t limit = (n / kBlock + 1) * kBlock;
  const int64_t last = Format::kRowsShareScales && limit < end ? limit : end;
  return static_cast<int>(last - n < kMost ? last - n : kMost);
}

// Copies the columns after the last whole block into a block padded with zeros. The activations
// there are -0, and fma(0, -0, a) is a.
template <BlockFormat Format>
struct PaddedBlock {
  uint8_t bytes[Format::kBlockBytes];

  WeightRow Fill(const WeightRow& row, int64_t k) {
    for (uint8_t& byte : bytes) {
      byte = 0;
    }
    __builtin_memcpy(bytes, row.bytes + k / kBlock * Format::kBlockBytes,
                     static_cast<size_t>(k % kBlock * Format::kBlockBytes / kBlock));
    return {bytes, nullptr, true};
  }
};

// values[i] = the sum over p of values[p * stride + i], a tree by halves.
inline void AddParts(int k_parts, int count, float* values, int64_t stride) {
  for (int half = k_parts / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) {
      float* to = values + p * stride;
      const float* from = values + (p + half) * stride;
      for (int i = 0; i < count; ++i) {
        to[i] = to[i] + from[i];
      }
    }
  }
}

inline void WriteValue(const cpu::Product& product, int64_t i, int64_t column, float value) {
  const int64_t row = product.rows_out == nullptr ? i : product.rows_out[i];
  if (product.out_bf16 != nullptr) {
    product.out_bf16[row * product.out_stride + column] = ToBf16(value);
  } else {
    product.out_float[row * product.out_stride + column] = value;
  }
}

// WriteValue for columns [column, column + count).
inline void WriteValues(const cpu::Product& product, int64_t i, int64_t column, const float* values,
                        int count) {
  const int64_t row = product.rows_out == nullptr ? i : product.rows_out[i];
  const int64_t first = row * product.out_stride + column;
  ForVectors(count, [&](int64_t j, int n) {
    const F32 some = LoadSome(values + j, n);
    if (product.out_bf16 != nullptr) {
      StoreBf16Some(product.out_bf16 + first + j, some, n);
    } else {
      StoreSome(product.out_float + first + j, some, n);
    }
  });
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
