// The layout of cached attention keys: FP8 codes, their scales, and the rotated dimensions in bf16.
//
// A key has head_dim numbers, the last rope_dims of them rotated. The other numbers, FP8-simulated
// (docs/numerics.md 4), are E4M3 codes times a power of two per 64 numbers, and are stored in this
// form without loss. One row, 448 + 128 + 7 + 1 = 584 bytes for V4:
//
//   [plain]            E4M3 codes; plain = head_dim - rope_dims
//   [2 * rope_dims]    bf16
//   [plain / 64 up]    scales, E8M0: the exponent bits of the fp32 number
//   zeros up to a multiple of 8
//
// The value of a code is E4m3ToFloat(code) * scale; the scale byte 255 is the infinity that
// PowerOfTwoScale returns for infinite numbers, so that infinite numbers also equal the
// simulation's.
//
// `static`: see kernels/math.h.
#pragma once

#include <stdint.h>

namespace fathom::kernels {

inline constexpr int64_t kSimulationGroup = 64;  // numbers that share a scale of the FP8 simulation

struct KeyLayout {
  int64_t head_dim = 0;
  int64_t rope_dims = 0;
  friend bool operator==(const KeyLayout&, const KeyLayout&) = default;
};

static constexpr int64_t PlainDims(const KeyLayout& layout) {
  return layout.head_dim - layout.rope_dims;
}
static constexpr int64_t ScaleOffset(const KeyLayout& layout) {
  return PlainDims(layout) + 2 * layout.rope_dims;
}
static constexpr int64_t KeyBytes(const KeyLayout& layout) {
  const int64_t scales = (PlainDims(layout) + kSimulationGroup - 1) / kSimulationGroup;
  return (ScaleOffset(layout) + scales + 7) / 8 * 8;
}

}  // namespace fathom::kernels
