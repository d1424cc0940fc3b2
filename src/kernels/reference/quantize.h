// Quantisation of activations and cached rows (docs/numerics.md 2 and 4), and the rotation of
// index vectors.
//
// `static`: see kernels/math.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float_types.h"
#include "kernels/key_layout.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels {

inline constexpr std::int64_t kIndexGroup = 32;  // numbers that share a scale of index vectors

// Returns the largest magnitude of x [n], ignoring NaN. Magnitudes of bf16 are ordered like their
// bits, whose maximum the compiler computes in vectors, unlike the maximum of floats.
static inline float LargestMagnitude(const Bf16* x, std::int64_t n) {
  std::int16_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::int16_t>(x[i].bits & 0x7FFF);
    const std::int16_t magnitude = bits > 0x7F80 ? std::int16_t{0} : bits;
    largest = magnitude > largest ? magnitude : largest;
  }
  return ToFloat(Bf16{static_cast<std::uint16_t>(largest)});
}

// Converts x [n] to E4M3 codes [n]; returns their scale. value = code * scale.
static inline float QuantizeE4m3(const Bf16* x, std::int64_t n, std::uint8_t* codes) {
  const float scale = PowerOfTwoScale(LargestMagnitude(x, n), kE4m3Floor, kE4m3Maximum);
  const float inverse = 1.0f / scale;
  for (std::int64_t i = 0; i < n; ++i) {
    codes[i] = FloatToE4m3(ToFloat(x[i]) * inverse);
  }
  return scale;
}

// Replaces x [n] by its value after quantisation to E4M3, in groups of 64. n is a multiple of 64.
static inline void SimulateFp8(Bf16* x, std::int64_t n) {
  for (std::int64_t first = 0; first < n; first += kSimulationGroup) {
    std::uint8_t codes[kSimulationGroup];
    const float scale = QuantizeE4m3(x + first, kSimulationGroup, codes);
    for (std::int64_t i = 0; i < kSimulationGroup; ++i) {
      x[first + i] = ToBf16(E4m3ToFloat(codes[i]) * scale);
    }
  }
}

// Packs x [head_dim] in the layout of cached keys, its plain dimensions quantised. UnpackKey
// returns simulated numbers bit for bit, and other numbers simulated.
static inline void PackKey(const Bf16* x, const KeyLayout& layout, std::uint8_t* packed) {
  const std::int64_t plain = PlainDims(layout);
  std::uint8_t* scales = packed + ScaleOffset(layout);
  std::fill(scales, packed + KeyBytes(layout), std::uint8_t{0});
  for (std::int64_t first = 0; first < plain; first += kSimulationGroup) {
    const std::int64_t n = std::min(kSimulationGroup, plain - first);
    const float scale = QuantizeE4m3(x + first, n, packed + first);
    scales[first / kSimulationGroup] =
        static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23);
  }
  std::memcpy(packed + plain, x + plain, static_cast<std::size_t>(2 * layout.rope_dims));
}

// Unpacks the numbers [head_dim] of a cached key.
static inline void UnpackKey(const std::uint8_t* packed, const KeyLayout& layout, Bf16* x) {
  const std::int64_t plain = PlainDims(layout);
  const std::uint8_t* scales = packed + ScaleOffset(layout);
  for (std::int64_t i = 0; i < plain; ++i) {
    const auto exponent = static_cast<std::uint32_t>(scales[i / kSimulationGroup]);
    x[i] = ToBf16(E4m3ToFloat(packed[i]) * std::bit_cast<float>(exponent << 23));
  }
  std::memcpy(x + plain, packed + plain, static_cast<std::size_t>(2 * layout.rope_dims));
}

// Applies the orthonormal Hadamard transform to x [128], in place. Its own inverse up to rounding.
static inline void RotateHadamard(Bf16* x) {
  float v[kIndexDim];
  for (std::int64_t i = 0; i < kIndexDim; ++i) {
    v[i] = ToFloat(x[i]);
  }
  for (std::int64_t stride = 1; stride < kIndexDim; stride *= 2) {
    for (std::int64_t i = 0; i < kIndexDim; ++i) {
      if ((i & stride) == 0) {
        const float a = v[i];
        const float b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
    }
  }
  for (std::int64_t i = 0; i < kIndexDim; ++i) {
    x[i] = ToBf16(v[i] * 0.08838834764831845f);
  }
}

// Packs x [128] as FP4 codes and scales: the layout of kPackedIndexBytes.
static inline void PackFp4(const Bf16* x, std::uint8_t* packed) {
  for (std::int64_t group = 0; group < kIndexDim / kIndexGroup; ++group) {
    const Bf16* in = x + group * kIndexGroup;
    std::uint8_t* out = packed + group * kIndexGroup / 2;
    const float scale =
        PowerOfTwoScale(LargestMagnitude(in, kIndexGroup), kE2m1Floor, kE2m1Maximum);
    const float inverse = 1.0f / scale;
    for (std::int64_t i = 0; i < kIndexGroup / 2; ++i) {
      const int low = FloatToE2m1(ToFloat(in[2 * i]) * inverse);
      const int high = FloatToE2m1(ToFloat(in[2 * i + 1]) * inverse);
      out[i] = static_cast<std::uint8_t>(low | high << 4);
    }
    packed[kIndexDim / 2 + group] =
        static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23);
  }
}

}  // namespace fathom::kernels
