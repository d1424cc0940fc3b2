// The number formats of the checkpoint, as scalar conversions (docs/spec/quantization.md 1 and 2).
//
// Portable bit arithmetic only: these functions define the values, and vector code must agree with
// them bit for bit. All conversions to a narrower format round to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fathom {

// A bfloat16 value: the upper half of an fp32. A separate type, so that it cannot be confused with
// an integer.
struct Bf16 {
  std::uint16_t bits;
  friend bool operator==(Bf16, Bf16) = default;
};

constexpr float ToFloat(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

constexpr Bf16 ToBf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // NaN stays NaN
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

// Returns x rounded to bfloat16, as a float: the `bf(x)` of the specification.
constexpr float RoundToBf16(float x) { return ToFloat(ToBf16(x)); }

// E4M3 (FN): s eeee mmm, bias 7, no infinities, 0x7F and 0xFF are NaN, largest 448. Both
// conversions select instead of branching, so that the compiler vectorises loops over them.
constexpr float E4m3ToFloat(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7Fu;
  // Read as fp32 bits, the shifted code is the number times 2^-120, for subnormals too.
  const float number = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  const std::uint32_t bits =
      magnitude == 0x7Fu ? 0x7FC00000u : std::bit_cast<std::uint32_t>(number);
  return std::bit_cast<float>(bits | static_cast<std::uint32_t>(code & 0x80u) << 24);
}

// Clamps to ±448, then rounds. The sign of zero is kept; NaN becomes NaN.
constexpr std::uint8_t FloatToE4m3(float x) {
  // Signed, because vector comparisons are signed.
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t magnitude = bits & 0x7FFFFFFF;
  const bool is_small = magnitude < 0x3C800000;  // below 2^-6
  // Steps of small numbers are 2^-9; adding 2^14 rounds at that bit.
  const float shifted = std::bit_cast<float>(is_small ? magnitude : 0) + 0x1p14f;
  const std::int32_t small = std::bit_cast<std::int32_t>(shifted) & 0xF;
  const std::int32_t clamped = magnitude < 0x43E00000 ? magnitude : 0x43E00000;  // 448
  const std::int32_t normal = ((clamped + 0x7FFFF + ((clamped >> 20) & 1)) >> 20) - (120 << 3);
  const std::int32_t number = is_small ? small : normal;
  const std::int32_t code = magnitude > 0x7F800000 ? 0x7F : number;
  return static_cast<std::uint8_t>(code | ((bits >> 24) & 0x80));
}

// E2M1 (FP4): s ee m; magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 by code.
constexpr float E2m1ToFloat(std::uint8_t nibble) {
  constexpr float kMagnitude[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitude[nibble & 7u];
  return (nibble & 8u) != 0 ? -magnitude : magnitude;
}

// Clamps to ±6, then rounds, ties to the even code.
constexpr std::uint8_t FloatToE2m1(float x) {
  const std::uint8_t sign = static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(x) >> 28) & 8u);
  const float a = x < 0.0f ? -x : x;
  const int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
                   (a >= 3.5f) + (a > 5.0f);
  return static_cast<std::uint8_t>(sign | code);
}

// E8M0: byte b is 2^(b-127); 0 is 2^-127 (an fp32 subnormal); 255 is NaN.
constexpr float E8m0ToFloat(std::uint8_t byte) {
  if (byte == 255) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(byte == 0 ? 0x00400000u : static_cast<std::uint32_t>(byte) << 23);
}

// Returns the smallest power of two s with s >= max(magnitude, floor) / format_maximum
// (docs/spec/quantization.md 2): the scale of a group whose largest magnitude is `magnitude`.
constexpr float PowerOfTwoScale(float magnitude, float floor, float format_maximum) {
  const float clamped = magnitude > floor ? magnitude : floor;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(clamped * (1.0f / format_maximum));
  const std::uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u);
  return std::bit_cast<float>(exponent << 23);
}

inline constexpr float kE4m3Maximum = 448.0f;
inline constexpr float kE4m3Floor = 1e-4f;
inline constexpr float kE2m1Maximum = 6.0f;
inline constexpr float kE2m1Floor = 6.0f * 0x1p-126f;

}  // namespace fathom
