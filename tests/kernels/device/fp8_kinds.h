// The two kinds of E4M3, converted with integers only: every GPU gives the same bits, with FP8
// units or without.
//
// FN (OCP; checkpoints, NVIDIA, gfx12): bias 7, 0x7F and 0xFF are NaN, largest 448. FNUZ (the
// matrix units of gfx942): bias 8, 0x80 is NaN, no negative zero, largest 240. A code of FN read as
// FNUZ is half the number, except for -0 and NaN.
#pragma once

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

struct E4m3Fn {
  static constexpr int32_t kBias = 7;
  static constexpr uint32_t kLargest = 0x7E;  // the code of 448
  static constexpr bool IsNan(uint32_t code) { return (code & 0x7F) == 0x7F; }
  static constexpr uint32_t Nan(uint32_t sign) { return sign | 0x7F; }
  static constexpr uint32_t Zero(uint32_t sign) { return sign; }
};

struct E4m3Fnuz {
  static constexpr int32_t kBias = 8;
  static constexpr uint32_t kLargest = 0x7F;  // the code of 240
  static constexpr bool IsNan(uint32_t code) { return code == 0x80; }
  static constexpr uint32_t Nan(uint32_t) { return 0x80; }
  static constexpr uint32_t Zero(uint32_t) { return 0; }
};

// Decodes a code (0 to 255). NaN is quiet; NaN of FN keeps its sign, NaN of FNUZ has none.
template <class Kind>
constexpr float Fp8ToFloat(uint32_t code) {
  if (Kind::IsNan(code)) {
    const uint32_t sign = Kind::kLargest == 0x7F ? 0 : (code & 0x80) << 24;
    return __builtin_bit_cast(float, sign | 0x7FC00000u);
  }
  const uint32_t sign = (code & 0x80) << 24;
  int32_t exponent = static_cast<int32_t>(code >> 3 & 15);
  uint32_t fraction = code & 7;
  if (exponent == 0) {
    if (fraction == 0) return __builtin_bit_cast(float, sign);
    for (exponent = 1; fraction < 8; --exponent) {
      fraction <<= 1;
    }
  }
  const auto biased = static_cast<uint32_t>(exponent - Kind::kBias + 127);
  return __builtin_bit_cast(float, sign | biased << 23 | (fraction & 7) << 20);
}

// Returns the code of the nearest number, ties to even; beyond the largest number, the largest. NaN
// becomes NaN, and -0 becomes +0 where there is no -0.
template <class Kind>
constexpr uint8_t FloatToFp8(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint8_t>(Kind::Nan(sign));
  // The exponent above that of the smallest normal number. Smaller numbers have the same step.
  const int32_t above = static_cast<int32_t>(magnitude >> 23) - 127 - (1 - Kind::kBias);
  const int32_t shift = 20 + (above < 0 ? -above : 0);
  uint32_t code = 0;
  if (shift < 25) {  // else below half of the smallest number
    const uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
    const uint32_t whole = significand >> shift;
    const uint32_t rest = significand - (whole << shift);
    const uint32_t half = 1u << (shift - 1);
    const bool up = rest > half || (rest == half && (whole & 1) != 0);
    // Normal numbers have 8 to 15 steps in each power of two, so a carry yields the next power.
    code = whole + (up ? 1 : 0) + (above > 0 ? static_cast<uint32_t>(above) << 3 : 0);
  }
  if (code > Kind::kLargest) {
    code = Kind::kLargest;
  }
  return static_cast<uint8_t>(code == 0 ? Kind::Zero(sign) : sign | code);
}

// Returns the FNUZ code of half the number of `code`, whose scale is doubled. Exact for every code.
constexpr uint8_t FnToHalfFnuz(uint8_t code) {
  if (E4m3Fn::IsNan(code)) return static_cast<uint8_t>(E4m3Fnuz::Nan(0));
  return code == 0x80 ? uint8_t{0} : code;
}

}  // namespace fathom::kernels::gpu
