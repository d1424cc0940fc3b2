// Widens the codes of FP8 and FP4 weights, and activations for them.
//
// Where a device converts E4M3, widened weights are their numbers. Elsewhere three integer
// operations give the number times 2^-120, a subnormal float where the code is subnormal. Then
// activations are widened times 2^60 and the sums of eight products are multiplied by 2^60: all
// powers of two with which nothing is rounded, as products of activations below 2^64 and above
// 2^-50 stay in the range of normal floats.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/device/codes.h"
#include "kernels/gpu/device/lane_rows.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Returns the number of the E4M3 code in byte i of a word, times 2^-120. Not for codes of NaN.
GPU_ANYWHERE float ShiftE4m3(uint32_t codes, int i) {
  const auto high = static_cast<int32_t>(codes << (24 - 8 * i));
  return __builtin_bit_cast(float, static_cast<uint32_t>(high >> 4) & 0x87F00000u);
}

// Widens the codes of a word, the lowest byte first.
GPU_DEVICE void WidenE4m3(uint32_t codes, float (&four)[4]) {
  if (ConvertsE4m3()) {
    ConvertE4m3(codes, four);
  } else {
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      four[i] = ShiftE4m3(codes, i);
    }
  }
}

// Returns the factor of activations for widened weights, and of their sums.
GPU_DEVICE float E4m3Factor() { return ConvertsE4m3() ? 1.0f : 0x1p60f; }

// Returns digit i of an integer in base 256, from -128 to 127, as a byte.
GPU_ANYWHERE uint32_t Digit(int32_t integer, int i) {
  constexpr int32_t kRounding[] = {0, 128, 128 + (128 << 8)};
  return static_cast<uint32_t>((integer + kRounding[i]) >> (8 * i)) & 255;
}

// Returns the integers of eight columns, E4M3 codes, in the words of a lane (lane_rows.h).
struct LaneDigits {
  uint32_t words[kDigitWords];
};
GPU_ANYWHERE LaneDigits MakeDigits(const uint8_t (&codes)[8]) {
  LaneDigits digits = {};
  int32_t sum = 0;
  GPU_UNROLL
  for (int j = 0; j < 8; ++j) {
    const int32_t integer = E4m3Integer(codes[j]);
    sum += integer;
    GPU_UNROLL
    for (int i = 0; i < 3; ++i) {
      digits.words[2 * i + j / 4] |= Digit(integer, i) << (8 * (j % 4));
    }
  }
  digits.words[6] = static_cast<uint32_t>(-64 * sum);
  return digits;
}

}  // namespace fathom::kernels::gpu
