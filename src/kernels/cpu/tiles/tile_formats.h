// Operands of products with tiles (product_tiles.cc): weights and activations as bf16 numbers with
// their scales multiplied in, in the order in which tdpbf16ps sums lanes of docs/numerics.md 2.
//
// Four of the 16 lanes, a quarter, are expanded at a time: per lane and block of 128 columns a tile
// of 16 rows of weights, [row][kSteps] pairs. Activations of 16 tokens are a tile per lane and
// block, [kSteps][token] pairs.
//   FP4: a lane is 8 columns, four pairs. Both chains of a pair's halves are exact.
//   FP8: a lane is 8 columns. Two lanes share a tile of activations, the first in the lower halves
//   of its pairs; the weights of each lane are beside zeros, which leave the other lane out.
// A format has
//   kSteps   pairs per lane and block,
//   kShared  lanes that share a tile of activations,
//   kPlaces  the places of a quarter's four lanes, where they are expanded side by side,
//   kFewestRows  rows of activations from which on tiles are faster; measured,
//   Codes    the data that all rows of a block share, made from a byte of its scales,
//   Expand   expands the four lanes of a block of kRowsAtOnce rows; the lanes are kLaneBytes apart
//            or, if that is 0, lane_bytes,
//   Pack     packs one token's block, as [kSteps][16 / kShared] pairs; returns at least its scale.
#pragma once

#include "kernels/cpu/vector/fp8_table.h"
#include "kernels/cpu/vector/product_integers.h"
#include "kernels/cpu/vector/product_rows.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int kTileSide = 16;  // rows of weights, and tokens, of a tile

// From kSmallestScale to this scale of the weights nothing overflows or becomes subnormal, with
// scales of activations up to kLargestActivationScale; scales of activations are at least 2^-22
// (docs/numerics.md 2).
constexpr uint8_t kLargestTileScale = 127 + 30;
constexpr float kLargestActivationScale = 0x1p60f;

// Per byte of a scale: a number whose subtraction from a pair of bf16 numbers times 2^60 multiplies
// them by the scale.
struct LessTable {
  uint32_t pairs[256];
};
constexpr LessTable MakeLessTable() {
  LessTable table = {};
  for (int byte = 0; byte < 256; ++byte) {
    const int less = byte > 127 + 60 ? 0 : (127 + 60 - byte) << 7;
    table.pairs[byte] = static_cast<uint32_t>(less) * 0x10001u;
  }
  return table;
}
constexpr LessTable kLess = MakeLessTable();

// Stores a quarter or a half of a register directly: extracting it to another register first would
// take the port of the tiles.
template <int kQuarter>
inline void StoreQuarter(uint8_t* p, __m512i x) {
  asm("vextracti32x4 %2, %1, %0" : "=m"(*reinterpret_cast<__m128i*>(p)) : "v"(x), "i"(kQuarter));
}
inline void StoreUpperHalf(uint8_t* p, __m512i x) {
  asm("vextracti64x4 $1, %1, %0" : "=m"(*reinterpret_cast<__m256i*>(p)) : "v"(x));
}

struct Fp4Tiles {
  static constexpr int kSteps = 4;
  static constexpr int kShared = 1;
  static constexpr int kPlaces[4] = {0, 1, 2, 3};
  static constexpr int kFewestRows = 7;
  static constexpr int64_t kBlockBytes = 64;

  // The values of codes 0 ... 15, twice, times 2^60; -0 is 0. Subtracting the rest of the exponent
  // with saturation leaves zeros unchanged.
  static __m512i Table() {
    constexpr int kUnit = (127 + 60) << 7;
    constexpr auto at = [](int exponent, int mantissa) {
      return static_cast<short>(kUnit + exponent * 128 + mantissa * 64);
    };
    constexpr short kSign = static_cast<short>(0x8000);
    const __m256i values =
        _mm256_setr_epi16(0, at(-1, 0), at(0, 0), at(0, 1), at(1, 0), at(1, 1), at(2, 0), at(2, 1),
                          0, at(-1, 0) | kSign, at(0, 0) | kSign, at(0, 1) | kSign,
                          at(1, 0) | kSign, at(1, 1) | kSign, at(2, 0) | kSign, at(2, 1) | kSign);
    return _mm512_inserti64x4(_mm512_castsi256_si512(values), values, 1);
  }

  static constexpr int kRowsAtOnce = 1;
  struct Codes {
    explicit Codes(uint8_t) {}
  };

  template <int64_t kLaneBytes>
  [[gnu::always_inline]] static void Expand(const Codes&, const uint8_t* row, int64_t,
                                            const uint8_t* scales, int64_t block, int quarter,
                                            int64_t lane_bytes, uint8_t* out) {
    const uint8_t* bytes = row + block * kBlockBytes + quarter * 16;
    const __m512i less =
        _mm512_set1_epi32(static_cast<int>(kLess.pairs[scales[block * 4 + quarter]]));
    // A lane of 32 bits has the codes of two columns, the first in the lower half.
    const __m512i codes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    const __m512i spread = _mm512_or_si512(codes, _mm512_slli_epi32(codes, 12));
    const __m512i values = _mm512_permutexvar_epi16(spread, Table());
    const __m512i lanes = _mm512_subs_epu16(values, less);
    if constexpr (kLaneBytes == 16) {
      _mm512_storeu_si512(out, lanes);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_castsi512_si128(lanes));
      StoreQuarter<1>(out + lane_bytes, lanes);
      StoreQuarter<2>(out + 2 * lane_bytes, lanes);
      StoreQuarter<3>(out + 3 * lane_bytes, lanes);
    }
  }

  static float Pack(const ProductRow& row, int64_t block, float* out) {
    const float* x = row.x + block * Fp4Integers::kXFloats;
    // product_integers.h: a number is (8 high + low) worth 2^6.
    const F32 worth = Load(x + Fp4Integers::kWorth) * Set(0x1p6f);
    const I32 low = LoadInt(x + Fp4Integers::kLow);
    const I32 lows[4] = {low, ShiftRight<4>(low), ShiftRight<8>(low), ShiftRight<12>(low)};
    F32 columns[8];
    for (int j = 0; j < 4; ++j) {
      const I32 high = LoadInt(x + j * kLanes);
      const int column = j % 2 * 2 + j / 2;
      const auto number = [&](I32 upper, I32 rest) {
        return ToFloat(Add(ShiftLeft<3>(upper), And(rest, SetInt(7)))) * worth;
      };
      columns[column] = number(ShiftRightSigned<16>(ShiftLeft<16>(high)), lows[j]);
      columns[column + 4] = number(ShiftRightSigned<16>(high), ShiftRight<16>(lows[j]));
    }
    for (int i = 0; i < kSteps; ++i) {
      StoreInt(out + i * kLanes,
               Or(ShiftRight<16>(Bits(columns[2 * i])),
                  And(Bits(columns[2 * i + 1]), SetInt(static_cast<int32_t>(0xFFFF0000u)))));
    }
    return MaxLanes(worth) * 0x1p12f;  // worth is at least the scale times 2^-12
  }
};

constexpr Fp8Table kFp8Tables[2] = {MakeFp8Table(0), MakeFp8Table(1)};

struct Fp8Tiles {
  static constexpr int kSteps = 8;
  static constexpr int kShared = 2;
  static constexpr int kPlaces[4] = {0, 2, 1, 3};
  static constexpr int kFewestRows = 5;
  static constexpr int64_t kBlockBytes = 128;

  // The numbers of the codes, times the scale of a block and 2^-30. A power of two is added to
  // exponents, of which a number's upper byte has all bits but the last.
  struct Codes {
    explicit Codes(uint8_t scale) {
      const int exponent = scale - 127 - 30;
      const Fp8Table& table = kFp8Tables[exponent & 1];
      const __m512i raised = _mm512_set1_epi8(static_cast<char>(exponent >> 1));
      constexpr __mmask64 kNotZero = ~__mmask64{1};  // code 0
      high[0] = _mm512_load_si512(table.high);
      high[0] = _mm512_mask_add_epi8(high[0], kNotZero, high[0], raised);
      high[1] = _mm512_add_epi8(_mm512_load_si512(table.high + 64), raised);
      low[0] = _mm512_load_si512(table.low);
      low[1] = _mm512_load_si512(table.low + 64);
    }
    __m512i high[2];
    __m512i low[2];
  };

  // The order of a quarter's codes of two rows, 16 + 16 from each: per row lanes 0 and 1, then
  // lanes 2 and 3, alternating. Where bytes become words, a half of 128 bits has the first row's
  // codes.
  static __m512i Order() {
    alignas(64) uint8_t order[64] = {};
    for (int i = 0; i < 64; ++i) {
      const int row = i % 16 / 8;
      const int lane = i / 32 * 2 + i % 2;
      const int half = i / 16 % 2;  // half of a lane's eight columns
      order[i] = static_cast<uint8_t>(32 * row + 16 * half + 4 * lane + i % 8 / 2);
    }
    return _mm512_load_si512(order);
  }

  static constexpr int kRowsAtOnce = 2;

  template <int64_t kLaneBytes>
  [[gnu::always_inline]] static void Expand(const Codes& codes, const uint8_t* row,
                                            int64_t row_bytes, const uint8_t*, int64_t block,
                                            int quarter, int64_t lane_bytes, uint8_t* out) {
    const uint8_t* bytes = row + block * kBlockBytes + quarter * 16;
    const auto load = [](const uint8_t* p) {
      const auto half = [](const uint8_t* q) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
      };
      return _mm256_inserti128_si256(_mm256_castsi128_si256(half(p)), half(p + 64), 1);
    };
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(load(bytes)), load(bytes + row_bytes), 1);
    const __m512i ordered = _mm512_permutexvar_epi8(Order(), both);
    const __m512i high = _mm512_permutex2var_epi8(codes.high[0], ordered, codes.high[1]);
    const __m512i low = _mm512_permutex2var_epi8(codes.low[0], ordered, codes.low[1]);
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    // high | (ordered & sign)
    const __m512i signed_high = _mm512_ternarylogic_epi32(high, ordered, sign, 0xF8);
    Store<kLaneBytes>(_mm512_unpacklo_epi8(low, signed_high), lane_bytes, out);
    constexpr int64_t kRow = kLaneBytes == 0 ? kSteps * 4 : 4 * kLaneBytes;
    Store<kLaneBytes>(_mm512_unpackhi_epi8(low, signed_high), lane_bytes, out + kRow);
  }

  // Stores a row's four lanes, each beside zeros.
  template <int64_t kLaneBytes>
  [[gnu::always_inline]] static void Store(__m512i pairs, int64_t lane_bytes, uint8_t* out) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    const __m512i even = _mm512_andnot_si512(upper, pairs);
    const __m512i odd = _mm512_and_si512(upper, pairs);
    if constexpr (kLaneBytes == 32) {
      _mm512_storeu_si512(out, even);
      _mm512_storeu_si512(out + 64, odd);
    } else {
      const auto store_lower = [](uint8_t* p, __m512i x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(x));
      };
      store_lower(out, even);
      store_lower(out + lane_bytes, odd);
      StoreUpperHalf(out + 2 * lane_bytes, even);
      StoreUpperHalf(out + 3 * lane_bytes, odd);
    }
  }

  static float Pack(const ProductRow& row, int64_t block, float* out) {
    // Prepared numbers times their scales are the numbers times 2^120, prepare.cc.
    const float scale = row.scales[block];
    const F32 factor = Set(scale * 0x1p-90f);
    for (int j = 0; j < kSteps; ++j) {
      const F32 numbers = Load(row.x + block * kBlock + j * kLanes) * factor;
      StoreHigh16(reinterpret_cast<uint16_t*>(out + j * kLanes / kShared), Bits(numbers));
    }
    return 0.25f * scale;
  }
};

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
