// Vector functions on AVX-512 (F, BW, VL, DQ): a register is the 16 lanes. Included by simd.h only.
#pragma once

namespace fathom::kernels::KERNEL_ISA {
namespace {

inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};

inline F32 Set(float x) { return {_mm512_set1_ps(x)}; }
inline F32 Zero() { return {_mm512_setzero_ps()}; }
inline I32 SetInt(int32_t x) { return {_mm512_set1_epi32(x)}; }

// Memory need not be aligned. With n: the first n lanes; others read as +0 and are not written.
inline __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline F32 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32 Load(const float* p, int n) { return {_mm512_maskz_loadu_ps(FirstLanes(n), p)}; }
inline void Store(float* p, F32 x) { _mm512_storeu_ps(p, x.v); }
inline void Store(float* p, F32 x, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), x.v); }
inline I32 LoadInt(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void StoreInt(void* p, I32 x) { _mm512_storeu_si512(p, x.v); }

// Keeps x in its register: GCC otherwise repeats the load as memory operand of every use.
inline void Keep(F32& x) { asm("" : "+v"(x.v)); }
inline void Keep(I32& x) { asm("" : "+v"(x.v)); }
inline F32 Kept(F32 x) {
  Keep(x);
  return x;
}

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 MulAdd(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 SquareRoot(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32 Max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }  // a > b ? a : b
inline F32 Min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }  // a < b ? a : b
inline F32 SelectLess(F32 a, F32 b, F32 yes, F32 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}

inline I32 Bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
inline F32 FromBits(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
inline F32 ToFloat(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32 ToInt(F32 a) { return {_mm512_cvttps_epi32(a.v)}; }
inline I32 Add(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 Subtract(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32 And(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32 Or(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kBits>
inline I32 ShiftLeft(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
inline I32 ShiftRight(I32 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
inline I32 ShiftRightBy(I32 a, int bits) {
  return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(bits))};
}
template <int kBits>
inline I32 ShiftRightSigned(I32 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
// Per lane: x is a NaN ? yes : no.
inline I32 SelectNan(F32 x, I32 yes, I32 no) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), no.v, yes.v)};
}
// Per lane: a < b ? yes : no; at_most: a <= b.
inline I32 SelectLess(F32 a, F32 b, I32 yes, I32 no) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline I32 SelectAtMost(F32 a, F32 b, I32 yes, I32 no) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ), no.v, yes.v)};
}

inline F32 LoadBf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline F32 LoadBf16(const uint16_t* p, int n) {
  const __m256i half = _mm256_maskz_loadu_epi16(FirstLanes(n), p);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
// Stores the upper halves of the lanes.
inline void StoreHigh16(uint16_t* p, I32 x) {
  const __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(x.v, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}
inline void StoreHigh16(uint16_t* p, I32 x, int n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(x.v, 16)));
}

// Returns the tree of the 16 lanes.
inline float TreeSum(const F32 (&lanes)[1]) {
  const __m256 v =
      _mm256_add_ps(_mm512_castps512_ps256(lanes[0].v), _mm512_extractf32x8_ps(lanes[0].v, 1));
  __m128 w = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  w = _mm_add_ps(w, _mm_movehl_ps(w, w));
  return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}
// Writes the trees of four times 16 lanes.
inline void TreeSums(const F32 (&lanes)[4][1], float* sums) {
  const auto halves = [](__m512 a, __m512 b) {  // lanes i and i + 8 of a, then of b
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  };
  const __m512 ab = halves(lanes[0][0].v, lanes[1][0].v);
  const __m512 cd = halves(lanes[2][0].v, lanes[3][0].v);
  // A quarter of the register for each: w[0..3], then w[0] + w[2] and w[1] + w[3].
  __m512 w = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  w = _mm512_add_ps(w, _mm512_permute_ps(w, 0x4E));
  w = _mm512_add_ps(w, _mm512_permute_ps(w, 0xB1));
  // Not to memory directly: such an instruction takes a hundred cycles on some processors.
  _mm_storeu_ps(sums, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, w)));
}
inline float FirstLane(F32 a) { return _mm512_cvtss_f32(a.v); }
inline float MaxLanes(F32 a) { return _mm512_reduce_max_ps(a.v); }

// columns[i]: number i of kLanes rows, row l in lane l.
inline void Transpose(const __m512 (&rows)[4], F32 (&columns)[4]) {
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
  const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
  const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
  const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
  columns[0].v = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
  columns[1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
  columns[2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
  columns[3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}

// Loads 4 numbers of kLanes rows, `stride` floats apart.
inline void LoadColumns(const float* p, int64_t stride, F32 (&columns)[4]) {
  __m512 rows[4];
  for (int i = 0; i < 4; ++i) {
    const float* row = p + i * stride;
    rows[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 4 * stride), 1);
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 8 * stride), 2);
    rows[i] = _mm512_insertf32x4(rows[i], _mm_loadu_ps(row + 12 * stride), 3);
  }
  Transpose(rows, columns);
}

// Loads 8 bf16 numbers of kLanes rows, `stride` numbers apart.
inline void LoadBf16Columns(const uint16_t* p, int64_t stride, F32 (&columns)[8]) {
  const auto load = [&](int l) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + l * stride));
  };
  __m512i r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_castsi128_si512(load(i));
    r[i] = _mm512_inserti32x4(r[i], load(i + 4), 1);
    r[i] = _mm512_inserti32x4(r[i], load(i + 8), 2);
    r[i] = _mm512_inserti32x4(r[i], load(i + 12), 3);
  }
  const __m512i pairs[4] = {_mm512_unpacklo_epi16(r[0], r[1]), _mm512_unpacklo_epi16(r[2], r[3]),
                            _mm512_unpackhi_epi16(r[0], r[1]), _mm512_unpackhi_epi16(r[2], r[3])};
  const __m512i zero = _mm512_setzero_si512();
  for (int i = 0; i < 4; ++i) {  // two columns each
    const __m512i a = pairs[i / 2 * 2];
    const __m512i b = pairs[i / 2 * 2 + 1];
    const __m512i both = i % 2 == 0 ? _mm512_unpacklo_epi32(a, b) : _mm512_unpackhi_epi32(a, b);
    columns[2 * i].v = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, both));
    columns[2 * i + 1].v = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, both));
  }
}

// Moves lane i to lane (i ^ kStride).
template <int kStride>
inline F32 Exchange(F32 a) {
  if constexpr (kStride == 8) {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0x4E)};
  } else if constexpr (kStride == 4) {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0xB1)};
  } else {
    return {_mm512_permute_ps(a.v, kStride == 2 ? 0x4E : 0xB1)};
  }
}

// Returns the scales of 128 FP4 columns from their 4 E8M0 bytes: lane l has the scale of byte l /
// 4. Byte 0: +0.
inline F32 ExpandFp4Scales(const uint8_t* p, int) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  // Shifts each lane's byte to bits 16 ... 23, then to the exponent.
  const int32_t select = static_cast<int32_t>(0x80008080);
  const __m512i selects = _mm512_setr_epi32(
      select, select, select, select, select + 0x10000, select + 0x10000, select + 0x10000,
      select + 0x10000, select + 0x20000, select + 0x20000, select + 0x20000, select + 0x20000,
      select + 0x30000, select + 0x30000, select + 0x30000, select + 0x30000);
  const __m512i moved = _mm512_shuffle_epi8(_mm512_set1_epi32(bytes), selects);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(moved, 7))};
}

// Expands 2 * kLanes E4M3 bytes, times 2^-120: even and odd indices.
inline void ExpandFp8Pairs(const uint8_t* p, F32& even, F32& odd) {
  const __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(0x87F00000u));
  even.v =
      _mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(_mm512_slli_epi32(v, 24), 4), mask));
  odd.v =
      _mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(_mm512_slli_epi32(v, 16), 4), mask));
}

// Loads 2 * kLanes 32-bit words: even and odd indices.
inline void LoadWords(const void* p, I32& even, I32& odd) {
  const __m512i index =
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i a = _mm512_loadu_si512(p);
  const __m512i b = _mm512_loadu_si512(static_cast<const uint8_t*>(p) + 64);
  even.v = _mm512_permutex2var_epi32(a, index, b);
  odd.v = _mm512_permutex2var_epi32(a, _mm512_add_epi32(index, _mm512_set1_epi32(1)), b);
}
// Sets 16-bit numbers to zero if all their bits but the uppermost are a number below `limit`.
inline I32 ZeroBelow16(I32 pairs, int16_t limit) {
  const __m512i magnitudes = _mm512_and_si512(pairs.v, _mm512_set1_epi16(0x7FFF));
  const __mmask32 kept = _mm512_cmpge_epi16_mask(magnitudes, _mm512_set1_epi16(limit));
  return {_mm512_maskz_mov_epi16(kept, pairs.v)};
}

// Returns the sum of the products of a lane's two signed numbers of 16 bits.
inline I32 MultiplyPairs16(I32 a, I32 b) { return {_mm512_madd_epi16(a.v, b.v)}; }
template <int kBits>
inline I32 ShiftLeft16(I32 a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}
template <int kBits>
inline I32 ShiftRightSigned16(I32 a) {
  return {_mm512_srai_epi16(a.v, kBits)};
}

// On bytes: products of unsigned a and signed b, added in pairs to 16-bit numbers; 16-bit addition;
// and the sum of a lane's two 16-bit numbers.
inline I32 MultiplyBytes(I32 a, I32 b) { return {_mm512_maddubs_epi16(a.v, b.v)}; }
inline I32 Add16(I32 a, I32 b) { return {_mm512_add_epi16(a.v, b.v)}; }
inline I32 SumHalves16(I32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi16(1))}; }

// Adds the four products of a lane's unsigned bytes a and signed bytes b to sums, which
// SumOfByteProducts turns into integers. Without VNNI the sums are two halves of 16 bits: the
// caller ensures that they do not overflow.
#if defined(__AVX512VNNI__)
inline I32 AddByteProducts(I32 sums, I32 a, I32 b) {
  return {_mm512_dpbusd_epi32(sums.v, a.v, b.v)};
}
inline I32 SumOfByteProducts(I32 sums) { return sums; }
#else
inline I32 AddByteProducts(I32 sums, I32 a, I32 b) { return Add16(sums, MultiplyBytes(a, b)); }
inline I32 SumOfByteProducts(I32 sums) { return SumHalves16(sums); }
#endif

// Sets byte i to table[index byte i], for indices 0 ... 15.
inline I32 LookUpBytes(const uint8_t (&table)[16], I32 index) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), index.v)};
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
