// Neighbouring numbers that a thread loads and stores at once.
//
// Vectors lie at multiples of their size. Rows that begin elsewhere are read number by number: the
// caller asks IsAligned once for a kernel, as all of its rows begin at the same distance from a
// multiple.
#pragma once

#include <stdint.h>

#include "base/float_types.h"
#include "kernels/gpu/device/vector_types.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Two numbers in a word, the first in its low half. may_alias: they are loaded as what they are
// not, words.
struct alignas(8) [[gnu::may_alias]] FourBf16 {
  static constexpr int kNumbers = 4;
  uint32_t words[kNumbers / 2];
};
struct alignas(16) [[gnu::may_alias]] EightBf16 {
  static constexpr int kNumbers = 8;
  uint32_t words[kNumbers / 2];
};

template <class Vector>
GPU_DEVICE bool IsAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % alignof(Vector) == 0;
}

// Loads a vector, all of whose numbers exist.
GPU_DEVICE FourFloats LoadFour(const float* from, bool is_aligned) {
  if (!is_aligned) return {{from[0], from[1], from[2], from[3]}};
  const auto vector = *reinterpret_cast<const FourFloats*>(from);
  return {{vector.numbers[0], vector.numbers[1], vector.numbers[2], vector.numbers[3]}};
}

// Loads a vector of which n numbers exist; the others are +0. All exist if it is aligned.
template <class Vector>
GPU_DEVICE Vector LoadBf16(const Bf16* from, int64_t n, bool is_aligned) {
  Vector vector = {};
  if (is_aligned) {
    return *reinterpret_cast<const Vector*>(from);
  }
  uint64_t first_four = 0;
  uint64_t last_four = 0;
  GPU_NO_UNROLL
  for (int i = 0; i < Vector::kNumbers && i < n; ++i) {
    const uint64_t number = static_cast<uint64_t>(from[i].bits) << (16 * (i % 4));
    first_four |= i < 4 ? number : 0;
    last_four |= i < 4 ? 0 : number;
  }
  vector.words[0] = static_cast<uint32_t>(first_four);
  vector.words[1] = static_cast<uint32_t>(first_four >> 32);
  if constexpr (Vector::kNumbers == 8) {
    vector.words[2] = static_cast<uint32_t>(last_four);
    vector.words[3] = static_cast<uint32_t>(last_four >> 32);
  }
  return vector;
}

// Stores the n numbers of a vector that exist. All exist if it is aligned.
template <class Vector>
GPU_DEVICE void StoreBf16(const Vector& vector, Bf16* to, int64_t n, bool is_aligned) {
  if (is_aligned) {
    *reinterpret_cast<Vector*>(to) = vector;
    return;
  }
  GPU_UNROLL
  for (int i = 0; i < Vector::kNumbers; ++i) {
    if (i < n) to[i] = Bf16{static_cast<uint16_t>(vector.words[i / 2] >> (16 * (i % 2)))};
  }
}

// Returns number i of a vector.
template <class Vector>
GPU_DEVICE float Number(const Vector& vector, int i) {
  const uint32_t word = vector.words[i / 2];
  return __builtin_bit_cast(float, i % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
}

// Sets number i of a vector that is +0 there.
template <class Vector>
GPU_DEVICE void SetNumber(Vector& vector, int i, Bf16 number) {
  vector.words[i / 2] |= static_cast<uint32_t>(number.bits) << (16 * (i % 2));
}

}  // namespace fathom::kernels::gpu
