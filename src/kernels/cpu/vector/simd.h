// The vector functions of the CPU kernels: the only place that names an instruction set.
//
// Kernels are written once with these functions and compiled once per instruction set, each time
// with its own KERNEL_ISA as namespace. docs/numerics.md sums in 16 lanes; a register holds kLanes
// of them, and kParts registers together are the 16 lanes, part p holding lanes p * kLanes ....
//
// Everything here has internal linkage: an object built for AVX-512 must not export a function that
// the linker could pick for all machines. For the same reason, files that include this one include
// nothing of the standard library beyond integers.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#include "kernels/cpu/vector/simd_avx512.h"
#else
#include "kernels/cpu/vector/simd_avx2.h"
#endif

namespace fathom::kernels::KERNEL_ISA {
namespace {

inline constexpr int kParts = 16 / kLanes;

// The operations that kernels/math.h needs.
struct VectorOps {
  using F = F32;
  using I = I32;
  static F Set(float x) { return KERNEL_ISA::Set(x); }
  static F MulAdd(F a, F b, F c) { return KERNEL_ISA::MulAdd(a, b, c); }
  static F SelectLess(F a, F b, F yes, F no) { return KERNEL_ISA::SelectLess(a, b, yes, no); }
  static I Bits(F a) { return KERNEL_ISA::Bits(a); }
  static F FromBits(I a) { return KERNEL_ISA::FromBits(a); }
  static F ToFloat(I a) { return KERNEL_ISA::ToFloat(a); }
  static I SetInt(int32_t a) { return KERNEL_ISA::SetInt(a); }
  static I Add(I a, I b) { return KERNEL_ISA::Add(a, b); }
  static I Subtract(I a, I b) { return KERNEL_ISA::Subtract(a, b); }
  static I Halve(I a) { return ShiftRightSigned<1>(a); }
  static I Exponent(I a) { return ShiftRightSigned<23>(a); }
  static I ToExponent(I a) { return ShiftLeft<23>(a); }
};

// Makes the compiler assume that memory has changed: otherwise, if sums outnumber the registers,
// GCC keeps copies of them on the stack, which it stores beside the originals.
[[gnu::always_inline]] inline void ForgetMemory() { asm volatile("" : : : "memory"); }

// --- Scalars: the conversions of base/float_types.h, whose inline functions must not be
// instantiated here.

inline float BitsToFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t FloatToBits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float FromBf16(uint16_t x) { return BitsToFloat(static_cast<uint32_t>(x) << 16); }

inline uint16_t ToBf16(float x) {
  const uint32_t bits = FloatToBits(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float RoundToBf16(float x) { return FromBf16(ToBf16(x)); }

inline float FromE8m0(uint8_t byte) {
  return BitsToFloat(byte == 0 ? 0x00400000u : static_cast<uint32_t>(byte) << 23);
}

inline float PowerOfTwoScale(float magnitude, float floor, float format_maximum) {
  const float clamped = magnitude > floor ? magnitude : floor;
  const uint32_t bits = FloatToBits(clamped * (1.0f / format_maximum));
  const uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u);
  return BitsToFloat(exponent << 23);
}

// --- Rounding

inline I32 Bf16Bits(F32 x) {  // rounded to bf16, in the upper half; the lower half is not cleared
  const I32 bits = Bits(x);
  const I32 odd = And(ShiftRight<16>(bits), SetInt(1));
  const I32 rounded = Add(Add(bits, SetInt(0x7FFF)), odd);
  return SelectNan(x, Or(bits, SetInt(0x00400000)), rounded);
}

inline F32 RoundToBf16(F32 x) {
  return FromBits(And(Bf16Bits(x), SetInt(static_cast<int32_t>(0xFFFF0000u))));
}

// RoundToBf16 for numbers that are not NaN.
inline F32 RoundNumberToBf16(F32 x) {
  const I32 bits = Bits(x);
  const I32 odd = And(ShiftRight<16>(bits), SetInt(1));
  const I32 rounded = Add(Add(bits, SetInt(0x7FFF)), odd);
  return FromBits(And(rounded, SetInt(static_cast<int32_t>(0xFFFF0000u))));
}

inline F32 Abs(F32 x) { return FromBits(And(Bits(x), SetInt(0x7FFFFFFF))); }

// Returns the E4M3 value nearest to x, clamped to +-448 (FloatToE4m3 and back).
inline F32 RoundToE4m3(F32 x) {
  const I32 sign = And(Bits(x), SetInt(static_cast<int32_t>(0x80000000u)));
  const F32 magnitude = Abs(x);
  // Below 2^-6 the steps are 2^-9: adding 2^14 rounds at that bit, subtracting it is exact.
  const F32 subnormal = (magnitude + Set(0x1p14f)) - Set(0x1p14f);
  const I32 bits = Bits(magnitude);
  const I32 odd = And(ShiftRight<20>(bits), SetInt(1));
  const I32 rounded = And(Add(Add(bits, SetInt(0x7FFFF)), odd), SetInt(~0xFFFFF));
  F32 value = SelectLess(magnitude, Set(0x1p-6f), subnormal, FromBits(rounded));
  value = SelectLess(magnitude, Set(448.0f), value, Set(448.0f));
  value = FromBits(SelectNan(x, SetInt(0x7FC00000), Bits(value)));
  return FromBits(Or(Bits(value), sign));
}

// --- bf16 in memory

inline void StoreBf16(uint16_t* p, F32 x) { StoreHigh16(p, Bf16Bits(x)); }
inline void StoreBf16(uint16_t* p, F32 x, int n) { StoreHigh16(p, Bf16Bits(x), n); }

// 2 * kLanes numbers: the even indices and the odd indices.
struct Pairs {
  F32 even;
  F32 odd;
};

inline Pairs LoadBf16Pairs(const uint16_t* p) {
  const I32 both = LoadInt(p);
  return {FromBits(ShiftLeft<16>(both)),
          FromBits(And(both, SetInt(static_cast<int32_t>(0xFFFF0000u))))};
}

inline void StoreBf16Pairs(uint16_t* p, Pairs x) {
  const I32 high = And(Bf16Bits(x.odd), SetInt(static_cast<int32_t>(0xFFFF0000u)));
  StoreInt(p, Or(ShiftRight<16>(Bf16Bits(x.even)), high));
}

// Calls body(i, n) for the pieces of [0, count): i ascending, n = kLanes except for the last.
template <class Body>
[[gnu::always_inline]] inline void ForVectors(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    body(i, kLanes);
  }
  if (i < count) {
    body(i, static_cast<int>(count - i));
  }
}

// ForVectors for sums in 16 lanes: part is i / kLanes % kParts, a constant for the compiler, so
// that the lanes can stay in registers.
template <class Body>
[[gnu::always_inline]] inline void ForLanes(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int part = 0; part < kParts; ++part) {
      body(i + part * kLanes, kLanes, part);
    }
  }
  for (int part = 0; part < kParts && i < count; ++part, i += kLanes) {
    body(i, static_cast<int>(count - i < kLanes ? count - i : kLanes), part);
  }
}

inline F32 LoadBf16Some(const uint16_t* p, int n) {
  return n == kLanes ? LoadBf16(p) : LoadBf16(p, n);
}
inline void StoreBf16Some(uint16_t* p, F32 x, int n) {
  n == kLanes ? StoreBf16(p, x) : StoreBf16(p, x, n);
}
inline F32 LoadSome(const float* p, int n) { return n == kLanes ? Load(p) : Load(p, n); }
inline void StoreSome(float* p, F32 x, int n) { n == kLanes ? Store(p, x) : Store(p, x, n); }

// --- Packed FP4 vectors of the indexer

// Converts 16 bytes of E2M1 pairs to 32 bytes: twice their values + 12, the 16 low nibbles first.
inline void ExpandTwice(const uint8_t* p, void* out) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  const __m128i nibble = _mm_set1_epi8(15);
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  auto* halves = static_cast<__m128i*>(out);
  _mm_storeu_si128(halves, _mm_shuffle_epi8(table, _mm_and_si128(v, nibble)));
  _mm_storeu_si128(halves + 1,
                   _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(v, 4), nibble)));
}

// --- Operands of products: F32, and the type that the files below call Operand

inline void LoadTo(const float* p, F32& x) { x = Load(p); }
inline F32 Multiply(F32 a, F32 b) { return a * b; }

// E4M3: lane l has 4 bytes, as bf16 numbers times 2^-120: bytes 0 and 2, bytes 1 and 3. Shifting
// the sign and the seven other bits into place gives exactly this value, subnormals included (they
// become subnormal fp32 numbers).
struct Fp8Bytes {
  I32 even;
  I32 odd;
};

inline Fp8Bytes LoadFp8(const uint8_t* p) {
  const I32 bytes = LoadInt(p);
  const I32 mask = SetInt(static_cast<int32_t>(0x87F087F0u));
  return {And(ShiftRightSigned16<4>(ShiftLeft16<8>(bytes)), mask),
          And(ShiftRightSigned16<4>(bytes), mask)};
}

// Returns the values of byte j times 2^-120.
inline F32 Fp8Operand(const Fp8Bytes& bytes, int j) {
  const I32 pair = j % 2 == 0 ? bytes.even : bytes.odd;
  return FromBits(j < 2 ? ShiftLeft<16>(pair)
                        : And(pair, SetInt(static_cast<int32_t>(0xFFFF0000u))));
}

inline void ExpandFp8(const uint8_t* p, F32 (&w)[4]) {
  const Fp8Bytes bytes = LoadFp8(p);
  for (int j = 0; j < 4; ++j) {
    w[j] = Fp8Operand(bytes, j);
  }
}

// In products by blocks, bf16 numbers below 2^-50 count as zero.
inline constexpr int16_t kSmallestBits = (127 - 50) << 7;

// The scales (E8M0), 2^-60 to 1, that scaled_formats.h multiplies into weights.
inline constexpr uint8_t kSmallestScale = 127 - 60;
inline constexpr uint8_t kLargestScale = 127;

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA

#if defined(__AVX512BF16__)
#include "kernels/cpu/vector/simd_bf16_operands.h"
#else
#include "kernels/cpu/vector/simd_float_operands.h"
#endif
