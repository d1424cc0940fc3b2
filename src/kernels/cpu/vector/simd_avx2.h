// Vector functions on AVX2 with FMA: two registers are the 16 lanes. Included by simd.h only. The
// contract of every function is in simd_avx512.h.
#pragma once

namespace fathom::kernels::KERNEL_ISA {
namespace {

inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;

struct F32 {
  __m256 v;
};
struct I32 {
  __m256i v;
};

inline F32 Set(float x) { return {_mm256_set1_ps(x)}; }
inline F32 Zero() { return {_mm256_setzero_ps()}; }
inline I32 SetInt(int32_t x) { return {_mm256_set1_epi32(x)}; }

inline __m256i FirstLanes(int n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index);
}
inline F32 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline F32 Load(const float* p, int n) { return {_mm256_maskload_ps(p, FirstLanes(n))}; }
inline void Store(float* p, F32 x) { _mm256_storeu_ps(p, x.v); }
inline void Store(float* p, F32 x, int n) { _mm256_maskstore_ps(p, FirstLanes(n), x.v); }
inline I32 LoadInt(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
inline void StoreInt(void* p, I32 x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x.v); }

// Keeps x in its register: GCC otherwise repeats the load as memory operand of every use.
inline void Keep(F32& x) { asm("" : "+x"(x.v)); }
inline void Keep(I32& x) { asm("" : "+x"(x.v)); }
inline F32 Kept(F32 x) {
  Keep(x);
  return x;
}

inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
inline F32 MulAdd(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 SquareRoot(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
inline F32 Max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F32 Min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline F32 SelectLess(F32 a, F32 b, F32 yes, F32 no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}

inline I32 Bits(F32 a) { return {_mm256_castps_si256(a.v)}; }
inline F32 FromBits(I32 a) { return {_mm256_castsi256_ps(a.v)}; }
inline F32 ToFloat(I32 a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline I32 ToInt(F32 a) { return {_mm256_cvttps_epi32(a.v)}; }
inline I32 Add(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline I32 Subtract(I32 a, I32 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
inline I32 And(I32 a, I32 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline I32 Or(I32 a, I32 b) { return {_mm256_or_si256(a.v, b.v)}; }
template <int kBits>
inline I32 ShiftLeft(I32 a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
inline I32 ShiftRight(I32 a) {
  return {_mm256_srli_epi32(a.v, kBits)};
}
inline I32 ShiftRightBy(I32 a, int bits) {
  return {_mm256_srl_epi32(a.v, _mm_cvtsi32_si128(bits))};
}
template <int kBits>
inline I32 ShiftRightSigned(I32 a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}
inline I32 SelectNan(F32 x, I32 yes, I32 no) {
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
  return {_mm256_blendv_epi8(no.v, yes.v, nan)};
}
inline I32 SelectLess(F32 a, F32 b, I32 yes, I32 no) {
  const __m256i less = _mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ));
  return {_mm256_blendv_epi8(no.v, yes.v, less)};
}
inline I32 SelectAtMost(F32 a, F32 b, I32 yes, I32 no) {
  const __m256i at_most = _mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ));
  return {_mm256_blendv_epi8(no.v, yes.v, at_most)};
}

inline F32 LoadBf16(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
inline F32 LoadBf16(const uint16_t* p, int n) {
  uint16_t padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<size_t>(n) * 2);
  return LoadBf16(padded);
}
inline void StoreHigh16(uint16_t* p, I32 x) {
  const __m256i low = _mm256_srli_epi32(x.v, 16);
  const __m128i half =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half);
}
inline void StoreHigh16(uint16_t* p, I32 x, int n) {
  uint16_t all[kLanes];
  StoreHigh16(all, x);
  __builtin_memcpy(p, all, static_cast<size_t>(n) * 2);
}

inline float TreeSum(const F32 (&lanes)[2]) {
  const __m256 v = _mm256_add_ps(lanes[0].v, lanes[1].v);
  __m128 w = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  w = _mm_add_ps(w, _mm_movehl_ps(w, w));
  return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}
inline void TreeSums(const F32 (&lanes)[4][2], float* sums) {
  const auto halves = [](const F32(&a)[2], const F32(&b)[2]) {
    const __m256 v = _mm256_add_ps(a[0].v, a[1].v);
    const __m256 w = _mm256_add_ps(b[0].v, b[1].v);
    return _mm256_add_ps(_mm256_permute2f128_ps(v, w, 0x20), _mm256_permute2f128_ps(v, w, 0x31));
  };
  const __m256 ab = halves(lanes[0], lanes[1]);  // w[0..3] of a, then of b
  const __m256 cd = halves(lanes[2], lanes[3]);
  // Per half of the register: w[0] + w[2] and w[1] + w[3] of a and c, or of b and d.
  const __m256 pairs =
      _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
  const __m256 sum = _mm256_add_ps(pairs, _mm256_permute_ps(pairs, 0xB1));
  const __m128 ac = _mm256_castps256_ps128(sum);
  const __m128 bd = _mm256_extractf128_ps(sum, 1);
  const __m128 a_c = _mm_shuffle_ps(ac, bd, 0x88);  // a, c, b, d
  _mm_storeu_ps(sums, _mm_permute_ps(a_c, 0xD8));
}
inline float FirstLane(F32 a) { return _mm256_cvtss_f32(a.v); }
inline float MaxLanes(F32 a) {
  __m128 w = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  w = _mm_max_ps(w, _mm_movehl_ps(w, w));
  return _mm_cvtss_f32(_mm_max_ss(w, _mm_movehdup_ps(w)));
}

inline void Transpose(const __m256 (&rows)[4], F32 (&columns)[4]) {
  const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(rows[0], rows[1]));
  const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(rows[2], rows[3]));
  const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(rows[0], rows[1]));
  const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(rows[2], rows[3]));
  columns[0].v = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
  columns[1].v = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
  columns[2].v = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
  columns[3].v = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
}

inline void LoadColumns(const float* p, int64_t stride, F32 (&columns)[4]) {
  __m256 rows[4];
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_castps128_ps256(_mm_loadu_ps(p + i * stride));
    rows[i] = _mm256_insertf128_ps(rows[i], _mm_loadu_ps(p + (i + 4) * stride), 1);
  }
  Transpose(rows, columns);
}

inline void LoadBf16Columns(const uint16_t* p, int64_t stride, F32 (&columns)[8]) {
  const auto load = [&](int l) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + l * stride));
  };
  __m256i r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load(i)), load(i + 4), 1);
  }
  const __m256i pairs[4] = {_mm256_unpacklo_epi16(r[0], r[1]), _mm256_unpacklo_epi16(r[2], r[3]),
                            _mm256_unpackhi_epi16(r[0], r[1]), _mm256_unpackhi_epi16(r[2], r[3])};
  const __m256i zero = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    const __m256i a = pairs[i / 2 * 2];
    const __m256i b = pairs[i / 2 * 2 + 1];
    const __m256i both = i % 2 == 0 ? _mm256_unpacklo_epi32(a, b) : _mm256_unpackhi_epi32(a, b);
    columns[2 * i].v = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, both));
    columns[2 * i + 1].v = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, both));
  }
}

template <int kStride>
inline F32 Exchange(F32 a) {
  static_assert(kStride < kLanes);
  if constexpr (kStride == 4) {
    return {_mm256_permute2f128_ps(a.v, a.v, 0x01)};
  } else {
    return {_mm256_permute_ps(a.v, kStride == 2 ? 0x4E : 0xB1)};
  }
}

inline F32 ExpandFp4Scales(const uint8_t* p, int part) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  // Shifts each lane's byte to bits 16 ... 23, then to the exponent.
  const __m256i first = _mm256_set1_epi32(static_cast<int32_t>(0x80008080));
  const __m256i second = _mm256_set1_epi32(static_cast<int32_t>(0x80018080));
  const __m256i select =
      _mm256_add_epi8(_mm256_blend_epi32(first, second, 0xF0), _mm256_set1_epi32(part << 17));
  const __m256i moved = _mm256_shuffle_epi8(_mm256_set1_epi32(bytes), select);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(moved, 7))};
}

inline void ExpandFp8Pairs(const uint8_t* p, F32& even, F32& odd) {
  const __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(0x87F00000u));
  even.v =
      _mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(_mm256_slli_epi32(v, 24), 4), mask));
  odd.v =
      _mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(_mm256_slli_epi32(v, 16), 4), mask));
}

inline void LoadWords(const void* p, I32& even, I32& odd) {
  const auto* words = static_cast<const float*>(p);
  const __m256 a = _mm256_loadu_ps(words);
  const __m256 b = _mm256_loadu_ps(words + kLanes);
  const auto in_order = [](__m256 quarters) {
    return _mm256_permute4x64_epi64(_mm256_castps_si256(quarters), 0xD8);
  };
  even.v = in_order(_mm256_shuffle_ps(a, b, 0x88));
  odd.v = in_order(_mm256_shuffle_ps(a, b, 0xDD));
}
inline I32 ZeroBelow16(I32 pairs, int16_t limit) {
  const __m256i magnitudes = _mm256_and_si256(pairs.v, _mm256_set1_epi16(0x7FFF));
  const __m256i below = _mm256_cmpgt_epi16(_mm256_set1_epi16(limit), magnitudes);
  return {_mm256_andnot_si256(below, pairs.v)};
}

inline I32 MultiplyPairs16(I32 a, I32 b) { return {_mm256_madd_epi16(a.v, b.v)}; }
template <int kBits>
inline I32 ShiftLeft16(I32 a) {
  return {_mm256_slli_epi16(a.v, kBits)};
}
template <int kBits>
inline I32 ShiftRightSigned16(I32 a) {
  return {_mm256_srai_epi16(a.v, kBits)};
}

inline I32 MultiplyBytes(I32 a, I32 b) { return {_mm256_maddubs_epi16(a.v, b.v)}; }
inline I32 Add16(I32 a, I32 b) { return {_mm256_add_epi16(a.v, b.v)}; }
inline I32 SumHalves16(I32 a) { return {_mm256_madd_epi16(a.v, _mm256_set1_epi16(1))}; }

inline I32 AddByteProducts(I32 sums, I32 a, I32 b) { return Add16(sums, MultiplyBytes(a, b)); }
inline I32 SumOfByteProducts(I32 sums) { return SumHalves16(sums); }

inline I32 LookUpBytes(const uint8_t (&table)[16], I32 index) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), index.v)};
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
