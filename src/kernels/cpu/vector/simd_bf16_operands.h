// Operands of quantised products on AVX-512 BF16: two columns per lane, a pair of bf16 numbers.
// E2M1 and E4M3 values are bf16 numbers. Included by simd.h only.
//
// vdpbf16ps adds a lane's two products as two fused multiply-adds, the upper half first: the
// architecture defines this order, and the tests of the products compare it with fma chains. The
// instruction treats subnormal inputs as zero and produces none; no quantised product meets a
// subnormal: codes are multiples of 2^-9 and the scales folded into activations are at least 2^-22.
#pragma once

#include "kernels/cpu/vector/fp8_table.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

struct Operand {
  __m512i v;
};
inline constexpr int kOperandColumns = 2;  // columns per lane

inline void LoadTo(const float* p, Operand& x) { x.v = _mm512_loadu_si512(p); }
inline void Keep(Operand& x) { asm("" : "+v"(x.v)); }

// Returns fma(a.low, b.low, fma(a.high, b.high, c)) per lane.
inline F32 MulAdd(Operand a, Operand b, F32 c) {
  return {_mm512_dpbf16_ps(c.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}

// Returns the first product of a chain: adding -0 changes no product, not even the sign of a zero.
inline F32 Multiply(Operand a, Operand b) { return MulAdd(a, b, Set(-0.0f)); }

// FP4: lane l has columns 8l ... 8l+7; w[j] has twice the values of columns 8l+j (low) and 8l+j+4.
// The permutation reads only the low five bits of a word: the fifth belongs to another nibble, so
// the table is stored twice.
inline void ExpandFp4(const uint8_t* p, Operand (&w)[4]) {
  const __m256i values = _mm256_setr_epi16(
      0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140, static_cast<int16_t>(0x8000),
      static_cast<int16_t>(0xBF80), static_cast<int16_t>(0xC000), static_cast<int16_t>(0xC040),
      static_cast<int16_t>(0xC080), static_cast<int16_t>(0xC0C0), static_cast<int16_t>(0xC100),
      static_cast<int16_t>(0xC140));
  const __m512i table = _mm512_inserti64x4(_mm512_castsi256_si512(values), values, 1);
  const __m512i v = _mm512_loadu_si512(p);
  w[0].v = _mm512_permutexvar_epi16(v, table);
  w[1].v = _mm512_permutexvar_epi16(_mm512_srli_epi32(v, 4), table);
  w[2].v = _mm512_permutexvar_epi16(_mm512_srli_epi32(v, 8), table);
  w[3].v = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 12), table);
}

// Looks up the bf16 numbers of 64 codes: words[0] has bytes 0 ... 7 of every quarter, words[1]
// bytes 8 ... 15.
inline void LookUpFp8(__m512i codes, const Fp8Table& table, __m512i (&words)[2]) {
  const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(table.high), codes,
                                                _mm512_load_si512(table.high + 64));
  const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table.low), codes,
                                               _mm512_load_si512(table.low + 64));
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  // high | (codes & sign)
  const __m512i signed_high = _mm512_ternarylogic_epi32(high, codes, sign, 0xF8);
  words[0] = _mm512_unpacklo_epi8(low, signed_high);
  words[1] = _mm512_unpackhi_epi8(low, signed_high);
}

// E4M3: lane l has 4 bytes; w[j] has the values of bytes 2j (high) and 2j+1 (low).
inline void ExpandFp8(const uint8_t* p, const Fp8Table& table, Operand (&w)[2]) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(1, 0, 5, 4, 9, 8, 13, 12, 3, 2, 7, 6, 11, 10, 15, 14));
  __m512i words[2];
  LookUpFp8(_mm512_shuffle_epi8(_mm512_loadu_si512(p), order), table, words);
  w[0].v = words[0];
  w[1].v = words[1];
}

constexpr Fp8Table kFp8Table = MakeFp8Table(0);

inline void ExpandFp8(const uint8_t* p, Operand (&w)[2]) { ExpandFp8(p, kFp8Table, w); }

// The tables of ExpandFp8 for each scale (E8M0).
struct ScaledFp8Tables {
  Fp8Table of[kLargestScale - kSmallestScale + 1];
};
constexpr ScaledFp8Tables MakeScaledFp8Tables() {
  ScaledFp8Tables tables = {};
  for (int scale = kSmallestScale; scale <= kLargestScale; ++scale) {
    tables.of[scale - kSmallestScale] = MakeFp8Table(scale - 127);
  }
  return tables;
}
constexpr ScaledFp8Tables kScaledFp8 = MakeScaledFp8Tables();

// Like ExpandFp8, times a scale.
inline void ExpandScaledFp8(const uint8_t* p, uint8_t scale, Operand (&w)[2]) {
  ExpandFp8(p, kScaledFp8.of[scale - kSmallestScale], w);
}

// Like ExpandFp4, times the scales of the block; -0 is 0. The table's numbers are times the largest
// scale: subtracting the rest of the exponent with saturation leaves zeros unchanged.
inline void ExpandScaledFp4(const uint8_t* p, const uint8_t* scales, Operand (&w)[4]) {
  const __m256i values = _mm256_setr_epi16(
      0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140, 0, static_cast<int16_t>(0xBF80),
      static_cast<int16_t>(0xC000), static_cast<int16_t>(0xC040), static_cast<int16_t>(0xC080),
      static_cast<int16_t>(0xC0C0), static_cast<int16_t>(0xC100), static_cast<int16_t>(0xC140));
  static_assert(kLargestScale == 127);
  const __m512i table = _mm512_inserti64x4(_mm512_castsi256_si512(values), values, 1);
  // Each quarter has a scale, whose byte goes to the lower half of every word.
  const __m512i order = _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(-0x8000), _mm_set1_epi16(-0x7FFF))),
      _mm256_setr_m128i(_mm_set1_epi16(-0x7FFE), _mm_set1_epi16(-0x7FFD)), 1);
  int32_t bytes;
  __builtin_memcpy(&bytes, scales, 4);
  const __m512i scale = _mm512_shuffle_epi8(_mm512_set1_epi32(bytes), order);
  const __m512i less =
      _mm512_slli_epi16(_mm512_sub_epi16(_mm512_set1_epi16(kLargestScale), scale), 7);
  const __m512i v = _mm512_loadu_si512(p);
  const __m512i codes[4] = {v, _mm512_srli_epi32(v, 4), _mm512_srli_epi32(v, 8),
                            _mm512_srli_epi16(v, 12)};
  for (int j = 0; j < 4; ++j) {
    w[j].v = _mm512_subs_epu16(_mm512_permutexvar_epi16(codes[j], table), less);
  }
}

inline void StoreTo(float* p, Operand x) { _mm512_storeu_si512(p, x.v); }

// bf16: lane l has 4 numbers; w[j] has numbers 2j (high) and 2j+1 (low), zero where they do not
// count.
inline void ExpandBf16(const uint16_t* p, Operand (&w)[2]) {
  const __m512i a = _mm512_loadu_si512(p);
  const __m512i b = _mm512_loadu_si512(p + 32);
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int j = 0; j < 2; ++j) {
    // Moves numbers 4 l + 2 j of both registers to the upper halves, and the next numbers to the
    // lower halves.
    const __m512i place = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x40004)),
                                           _mm512_set1_epi32(2 * j * 0x10001 + 1));
    w[j].v = ZeroBelow16({_mm512_permutex2var_epi16(a, place, b)}, kSmallestBits).v;
  }
}

// Multiplies expanded FP8 weights by a factor of magnitude 1 to 2, rounded to bf16.
inline Operand ScaledFp8(Operand w, float factor) {
  const I32 both = {w.v};
  const I32 upper = SetInt(static_cast<int32_t>(0xFFFF0000u));
  const F32 high = RoundNumberToBf16(FromBits(And(both, upper)) * Set(factor));
  const F32 low = RoundNumberToBf16(FromBits(ShiftLeft<16>(both)) * Set(factor));
  return {Or(Bits(high), ShiftRight<16>(Bits(low))).v};
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
