// CharacterClasses: kinds of the characters of plain texts, in the classes that patterns
// distinguish most often: digits, letters of hexadecimal digits, other letters, each punctuation
// mark, characters of 2, 3 and 4 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

namespace fathom::constraint {

// A set of kinds, as bits.
using CharacterClasses = std::uint64_t;

// The kind of bytes with which no plain character begins: ", \, <, control characters, no UTF-8.
inline constexpr int kNotPlainKind = 63;
inline constexpr CharacterClasses kNotPlain = CharacterClasses{1} << kNotPlainKind;

constexpr std::array<std::uint8_t, 256> MakeCharacterClasses() {
  // The first bytes of the first kinds.
  constexpr unsigned kRanges[][2] = {{'0', '9'}, {'a', 'f'},   {'g', 'z'},   {'A', 'F'},
                                     {'G', 'Z'}, {0xC2, 0xDF}, {0xE0, 0xEF}, {0xF0, 0xF4}};
  std::array<std::uint8_t, 256> kinds{};
  std::uint8_t next = std::size(kRanges);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::uint8_t kind = 0;
    while (kind < std::size(kRanges) && (byte < kRanges[kind][0] || byte > kRanges[kind][1]))
      ++kind;
    const bool is_ascii =
        byte >= 0x20 && byte <= 0x7F && byte != '"' && byte != '\\' && byte != '<';
    if (kind == std::size(kRanges)) kind = is_ascii ? next++ : std::uint8_t{kNotPlainKind};
    kinds[byte] = kind;
  }
  return kinds;
}

// By the first byte of a character: the number of its kind.
inline constexpr std::array<std::uint8_t, 256> kCharacterClasses = MakeCharacterClasses();
inline constexpr int kCharacterClassCount = kCharacterClasses[0x7F] + 1;
inline constexpr CharacterClasses kAllCharacterClasses =
    (CharacterClasses{1} << kCharacterClassCount) - 1;

constexpr CharacterClasses KindBit(std::uint8_t first_byte) {
  return CharacterClasses{1} << kCharacterClasses[first_byte];
}

// Tokens of plain text are whole code points without ", \, <, U+FF5C and control characters: most
// strings may contain them. Slice n has the plain tokens of at most n code points.
inline constexpr int kLargestSlice = 30;

}  // namespace fathom::constraint
