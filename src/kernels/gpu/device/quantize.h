// Quantisation by the threads of a group (docs/numerics.md 2 and 4): like
// kernels/reference/quantize.h on the host, number by number.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/gpu.h"
#include "kernels/key_layout.h"

namespace fathom::kernels::gpu {

// Returns the magnitude of x, 0 for NaN: numbers that are ordered like magnitudes.
GPU_DEVICE int32_t Magnitude(Bf16 x) {
  const int32_t bits = x.bits & 0x7FFF;
  return bits > 0x7F80 ? 0 : bits;
}

GPU_DEVICE float E4m3Scale(int32_t largest) {
  return PowerOfTwoScale(ToFloat(Bf16{static_cast<uint16_t>(largest)}), kE4m3Floor, kE4m3Maximum);
}

GPU_DEVICE uint8_t ExponentByte(float scale) {
  return static_cast<uint8_t>(__builtin_bit_cast(uint32_t, scale) >> 23);
}

// Returns the code of x in a group whose scale is 1 / inverse. NaN, and infinity times zero, have
// different bits on different devices; their codes equal the CPU's.
GPU_DEVICE uint8_t E4m3Code(Bf16 x, float inverse) {
  const int32_t magnitude = x.bits & 0x7FFF;
  if (magnitude == 0x7F80) return 0xFF;
  if (magnitude > 0x7F80) return static_cast<uint8_t>(0x7F | (x.bits >> 8 & 0x80));
  return FloatToE4m3(ToFloat(x) * inverse);
}

// Returns the scale of up to 64 numbers x(first) ... x(first + n - 1) to all threads of the group.
template <class X>
GPU_DEVICE float SimulationScale(const X& x, int64_t first, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = GroupLane(); i < n; i += kGroupThreads) {
    const int32_t magnitude = Magnitude(x(first + i));
    largest = magnitude > largest ? magnitude : largest;
  }
  return E4m3Scale(LargestOfGroup(largest));
}

// Packs x(0) ... x(head_dim - 1) in the layout of cached keys (kernels/key_layout.h). All threads
// of the block call it.
template <class X>
GPU_DEVICE void PackKeyOfBlock(const X& x, const KeyLayout& layout, uint8_t* packed) {
  const int64_t plain = PlainDims(layout);
  uint8_t* const scales = packed + ScaleOffset(layout);
  const int64_t n_scales = (plain + kSimulationGroup - 1) / kSimulationGroup;
  const int64_t group = ThreadX() / kGroupThreads;
  const int64_t n_groups = BlockThreads() / kGroupThreads;
  for (int64_t base = 0; base < n_scales; base += n_groups) {
    const int64_t first = (base + group) * kSimulationGroup;
    const int64_t rest = plain - first;
    const int64_t n = rest < 0 ? 0 : rest < kSimulationGroup ? rest : kSimulationGroup;
    const float scale = SimulationScale(x, first, n);
    const float inverse = Div(1.0f, scale);
    for (int64_t i = GroupLane(); i < n; i += kGroupThreads) {
      packed[first + i] = E4m3Code(x(first + i), inverse);
    }
    if (n > 0 && GroupLane() == 0) {
      scales[base + group] = ExponentByte(scale);
    }
  }
  for (int64_t i = ThreadX(); i < 2 * layout.rope_dims; i += BlockThreads()) {
    packed[plain + i] = static_cast<uint8_t>(Bf16(x(plain + i / 2)).bits >> (i % 2 == 0 ? 0 : 8));
  }
  for (int64_t i = ScaleOffset(layout) + n_scales + ThreadX(); i < KeyBytes(layout);
       i += BlockThreads()) {
    packed[i] = 0;
  }
}

// Returns number i of a cached key.
GPU_DEVICE Bf16 KeyNumber(const uint8_t* packed, const KeyLayout& layout, int64_t i) {
  const int64_t plain = PlainDims(layout);
  if (i >= plain) {
    const uint8_t* const bytes = packed + plain + 2 * (i - plain);
    return Bf16{static_cast<uint16_t>(bytes[0] | bytes[1] << 8)};
  }
  const uint32_t exponent = packed[ScaleOffset(layout) + i / kSimulationGroup];
  return ToBf16(E4m3ToFloat(packed[i]) * __builtin_bit_cast(float, exponent << 23));
}

}  // namespace fathom::kernels::gpu
