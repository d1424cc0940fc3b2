// Reads the keys of attention, eight numbers at a time. A key is also the value of its slot.
#pragma once

#include <stdint.h>

#include "base/float_types.h"
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/four_numbers.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

inline constexpr int kPieceDims = 8;

// Where the key of a slot is: twice its distance in bytes from AttentionLists::keys, plus one if
// the key is a row of the batch (bf16) and not a cached key (kernels/key_layout.h). 0: the slot is
// masked. Distances, because compilers then know that the keys are in memory of the device.
using KeyAddress = int64_t;
GPU_DEVICE KeyAddress AddressOf(const AttentionLists& lists, const Bf16* own) {
  return 2 * (reinterpret_cast<const uint8_t*>(own) -
              reinterpret_cast<const uint8_t*>(lists.keys)) +
         1;
}
GPU_DEVICE KeyAddress AddressOf(const AttentionLists& lists, const uint8_t* cached) {
  return 2 * (cached - reinterpret_cast<const uint8_t*>(lists.keys));
}

// A masked slot has the value -0 and the probability 0: fma(0, -0, o) is o, for zeros of both signs
// too.
inline constexpr uint32_t kTwoMinusZeros = 0x80008000u;

// Eight neighbouring numbers of a key as they are stored.
struct KeyPiece {
  uint32_t words[4];   // bf16, or codes in the first two
  uint32_t exponents;  // of codes: the byte of their scale
};

GPU_DEVICE void LoadWords(const uint8_t* from, uint32_t& low, uint32_t& high) {
  const auto word = *reinterpret_cast<const uint64_t*>(from);
  low = static_cast<uint32_t>(word);
  high = static_cast<uint32_t>(word >> 32);
}

// Reads a key by words of 8 bytes: for keys at such addresses, head_dim a multiple of 16, and no
// piece of both codes and bf16.
class WordReader {
 public:
  static constexpr bool kReadsBeyondEnd = false;

  GPU_DEVICE WordReader(const AttentionLists& lists, KeyAddress key, const KeyLayout& layout)
      : bytes_(reinterpret_cast<const uint8_t*>(lists.keys) + (key >> 1)),
        code_end_(key % 2 != 0 ? 0u : static_cast<uint32_t>(PlainDims(layout))),
        scales_(static_cast<uint32_t>(ScaleOffset(layout))) {}

  // Returns whether number `first` is a code.
  GPU_DEVICE bool HasCode(uint32_t first) const { return first < code_end_; }
  // Reads the piece that begins with number `first`, a multiple of kPieceDims below head_dim.
  GPU_DEVICE void Read(uint32_t first, KeyPiece& piece) const {
    if (HasCode(first)) {
      LoadWords(bytes_ + first, piece.words[0], piece.words[1]);
      piece.exponents = bytes_[scales_ + first / static_cast<uint32_t>(kSimulationGroup)];
    } else {
      const uint8_t* const numbers = bytes_ + (2 * first - code_end_);
      LoadWords(numbers, piece.words[0], piece.words[1]);
      LoadWords(numbers + 8, piece.words[2], piece.words[3]);
    }
  }
  // Reads q[first] ... q[first + 3].
  GPU_DEVICE static void ReadQuery(const Bf16* q, uint32_t first, uint32_t /*head_dim*/,
                                   uint32_t (&words)[2]) {
    LoadWords(reinterpret_cast<const uint8_t*>(q + first), words[0], words[1]);
  }

 private:
  const uint8_t* bytes_;
  uint32_t code_end_;  // numbers before this one are codes
  uint32_t scales_;    // offset of the scales
};

// Reads a key number by number: of any head_dim, at any address. From head_dim on, keys are read as
// -0 and queries as 0, which leave every sum as it is.
class NumberReader {
 public:
  static constexpr bool kReadsBeyondEnd = true;

  GPU_DEVICE NumberReader(const AttentionLists& lists, KeyAddress key, const KeyLayout& layout)
      : key_(reinterpret_cast<const uint8_t*>(lists.keys) + (key >> 1)),
        layout_(layout),
        is_own_(key % 2 != 0) {}

  GPU_DEVICE static bool HasCode(uint32_t /*first*/) { return false; }
  GPU_DEVICE void Read(uint32_t first, KeyPiece& piece) const {
    const auto head_dim = static_cast<uint32_t>(layout_.head_dim);
    const uint32_t last = first + kPieceDims;
    GPU_UNROLL
    for (int word = 0; word < 4; ++word) {
      piece.words[word] = kTwoMinusZeros;
    }
    // Backwards, so that a number enters at the bottom of the words.
    for (uint32_t i = last < head_dim ? last : head_dim; i > first;) {
      --i;
      const Bf16 number =
          is_own_ ? reinterpret_cast<const Bf16*>(key_)[i] : KeyNumber(key_, layout_, i);
      GPU_UNROLL
      for (int word = 3; word > 0; --word) {
        piece.words[word] = piece.words[word] << 16 | piece.words[word - 1] >> 16;
      }
      piece.words[0] = piece.words[0] << 16 | number.bits;
    }
  }
  GPU_DEVICE static void ReadQuery(const Bf16* q, uint32_t first, uint32_t head_dim,
                                   uint32_t (&words)[2]) {
    const auto bits = [&](uint32_t i) { return i < head_dim ? uint32_t{q[i].bits} : 0u; };
    words[0] = bits(first) | bits(first + 1) << 16;
    words[1] = bits(first + 2) | bits(first + 3) << 16;
  }

 private:
  const uint8_t* key_;
  KeyLayout layout_;
  bool is_own_;
};

// Widens two bf16 numbers, the lower half first.
GPU_DEVICE void WidenBf16(uint32_t word, float& low, float& high) {
  low = __builtin_bit_cast(float, word << 16);
  high = __builtin_bit_cast(float, word & 0xFFFF0000u);
}

// Returns whether one of eight E4M3 codes is NaN. Then all eight numbers may be NaN: the score of
// the key is NaN with one of them, and so are its probability and all that is computed with it.
GPU_DEVICE bool HasNan(uint32_t low, uint32_t high) {
  const uint32_t low_carries = (low & 0x7F7F7F7Fu) + 0x01010101u;
  const uint32_t high_carries = (high & 0x7F7F7F7Fu) + 0x01010101u;
  return ((low_carries | high_carries) & 0x80808080u) != 0;
}

// Widens the E4M3 codes of a word, none of them NaN, times a power of two, the lowest byte first.
GPU_DEVICE FourNumbers WidenCodes(uint32_t codes, float scale) {
  FourNumbers numbers;
  if (ConvertsE4m3()) {
    ConvertE4m3(codes, numbers.at);
  } else {
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      // As the bits of a float, the sign and the shifted magnitude are the number times 2^-120.
      const auto high = static_cast<int32_t>(codes << (24 - 8 * i));
      const uint32_t shifted = static_cast<uint32_t>(high >> 4) & 0x87F00000u;
      numbers.at[i] = __builtin_bit_cast(float, shifted) * 0x1p120f;
    }
  }
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    numbers.at[i] = numbers.at[i] * scale;
  }
  return numbers;
}

// Widens a piece: its first four numbers, and the others. Products of codes and scales are exact
// in bf16: no scale is below that of kE4m3Floor.
GPU_DEVICE void Widen(const KeyPiece& piece, bool has_codes, FourNumbers& first,
                      FourNumbers& second) {
  if (has_codes) {
    const bool is_nan = !ConvertsE4m3() && HasNan(piece.words[0], piece.words[1]);
    const float scale = __builtin_bit_cast(float, is_nan ? 0x7FC00000u : piece.exponents << 23);
    first = WidenCodes(piece.words[0], scale);
    second = WidenCodes(piece.words[1], scale);
    return;
  }
  WidenBf16(piece.words[0], first.at[0], first.at[1]);
  WidenBf16(piece.words[1], first.at[2], first.at[3]);
  WidenBf16(piece.words[2], second.at[0], second.at[1]);
  WidenBf16(piece.words[3], second.at[2], second.at[3]);
}

}  // namespace fathom::kernels::gpu
