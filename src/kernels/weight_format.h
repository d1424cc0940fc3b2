// Weights as the checkpoint stores them: the byte layout of every matrix format, in one place.
//
//   kF32, kBf16  [n, k] numbers, row-major.
//   kFp8         [n, k] E4M3 bytes; one scale per block of 128 x 128: scales [n/128, k/128] (each
//                rounded up), E8M0 or F32. value(i, j) = e4m3 * scale[i / 128][j / 128].
//   kFp4         [n, k/2] bytes, two E2M1 values each: column 2j in the low nibble, 2j+1 in the
//                high; one E8M0 scale per row and 32 columns: scales [n, k/32].
//                value(i, j) = e2m1 * scale[i][j / 32].
//
// Nothing is converted or repacked: a Weight points into the mapped file (docs/spec/checkpoint.md
// 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/float_types.h"

namespace fathom::kernels {

enum class WeightFormat : std::uint8_t { kF32, kBf16, kFp8, kFp4 };
enum class ScaleFormat : std::uint8_t { kE8m0, kF32 };

inline constexpr std::int64_t kFp8Block = 128;  // rows and columns that share one FP8 weight scale,
                                                // and columns that share one activation scale
inline constexpr std::int64_t kFp4Block = 32;   // columns that share one FP4 weight scale

// A matrix [n, k] that maps k inputs to n outputs. Does not own its bytes. For kFp8 and kFp4 k is a
// multiple of 128. F32 and BF16 data are aligned to their element size.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  ScaleFormat scale_format = ScaleFormat::kE8m0;  // for kFp8; kFp4 is always E8M0
  const std::byte* data = nullptr;
  const std::byte* scales = nullptr;  // null for kF32 and kBf16
  std::int64_t n = 0;
  std::int64_t k = 0;
  // The sum over k is divided into this many equal parts, each summed on its own, then added by
  // halves (docs/numerics.md 2): 2, 4 or 8 ranks can share the matrix and get the same bits.
  int k_parts = 1;

  // Returns true if activations are quantised for this weight.
  constexpr bool IsQuantized() const {
    return format == WeightFormat::kFp8 || format == WeightFormat::kFp4;
  }
  constexpr std::int64_t RowBytes() const {
    switch (format) {
      case WeightFormat::kF32:
        return 4 * k;
      case WeightFormat::kBf16:
        return 2 * k;
      case WeightFormat::kFp8:
        return k;
      case WeightFormat::kFp4:
        return k / 2;
    }
    return 0;
  }
  constexpr std::int64_t ScaleColumns() const {
    return format == WeightFormat::kFp4 ? k / kFp4Block : (k + kFp8Block - 1) / kFp8Block;
  }
  constexpr std::int64_t ScaleRows() const {
    return format == WeightFormat::kFp4 ? n : (n + kFp8Block - 1) / kFp8Block;
  }
  // Returns the bytes of one scale.
  constexpr std::int64_t ScaleSize() const { return scale_format == ScaleFormat::kF32 ? 4 : 1; }
  // Returns the bytes of all scales, bound or not.
  constexpr std::int64_t AllScaleBytes() const {
    return IsQuantized() ? ScaleRows() * ScaleColumns() * ScaleSize() : 0;
  }
  std::span<const std::byte> Bytes() const {
    return {data, static_cast<std::size_t>(n * RowBytes())};
  }
  // Returns the scales; empty for kF32 and kBf16.
  std::span<const std::byte> ScaleBytes() const {
    return {scales, scales == nullptr ? 0 : static_cast<std::size_t>(AllScaleBytes())};
  }
  // Returns the scale of kFp8 block (row / 128, block).
  float Fp8Scale(std::int64_t row, std::int64_t block) const {
    const std::int64_t i = row / kFp8Block * ScaleColumns() + block;
    return scale_format == ScaleFormat::kE8m0 ? E8m0ToFloat(static_cast<std::uint8_t>(scales[i]))
                                              : reinterpret_cast<const float*>(scales)[i];
  }
};

// P of numerics.md: the largest power of two <= 8 that divides k / 128; 1 if 128 does not divide k.
constexpr int RowParallelParts(std::int64_t k) {
  int parts = 8;
  while (parts > 1 && k % (kFp8Block * parts) != 0) {
    parts /= 2;
  }
  return parts;
}

// One routed expert: gate (w1) and up (w3) [moe_intermediate_size, hidden], down (w2) [hidden,
// moe_intermediate_size].
struct ExpertWeights {
  Weight w1;
  Weight w2;
  Weight w3;
};

// Returns true if the experts have one shape and one format.
bool AreUniform(std::span<const ExpertWeights> experts);

inline constexpr std::int32_t kRemoteExpert = -1;  // the id of an expert that another rank has

// Hyper-connection parameters of one sub-layer (docs/spec/model.md 3): fn [24, 4 d] (rows: 4 pre, 4
// post, 16 comb), base [24], scale [3]; for a head: fn [4, 4 d], base [4], scale [1].
struct HcWeights {
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
};

}  // namespace fathom::kernels
