// CharacterClasses: kinds of the characters of plain texts, in the classes that patterns
// distinguish most often: digits, letters of hexadecimal digits, other letters, each punctuation
// mark, characters of 2, 3 and 4 bytes.
#pragma once

#include <array>
#include <cstdint>

namespace fathom {

// A set of kinds, as bits.
using CharacterClasses = std::uint64_t;

// The kind of bytes with which no plain character begins: ", \, <, control characters, no UTF-8.
inline constexpr int kNotPlainKind = 63;
inline constexpr CharacterClasses kNotPlain = CharacterClasses{1} << kNotPlainKind;

constexpr std::array<std::uint8_t, 256> MakeCharacterClasses() {
  std::array<std::uint8_t, 256> kinds{};
  std::uint8_t next = 8;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto within = [&](unsigned first, unsigned last) {
      return first <= byte && byte <= last;
    };
    if (within('0', '9')) {
      kinds[byte] = 0;
    } else if (within('a', 'f')) {
      kinds[byte] = 1;
    } else if (within('g', 'z')) {
      kinds[byte] = 2;
    } else if (within('A', 'F')) {
      kinds[byte] = 3;
    } else if (within('G', 'Z')) {
      kinds[byte] = 4;
    } else if (within(0xC2, 0xDF)) {
      kinds[byte] = 5;
    } else if (within(0xE0, 0xEF)) {
      kinds[byte] = 6;
    } else if (within(0xF0, 0xF4)) {
      kinds[byte] = 7;
    } else if (within(0x20, 0x7F) && byte != '"' && byte != '\\' && byte != '<') {
      kinds[byte] = next++;
    } else {
      kinds[byte] = kNotPlainKind;
    }
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

}  // namespace fathom
