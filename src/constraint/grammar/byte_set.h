// ByteSet: a set of byte values.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace fathom::constraint {

class ByteSet {
 public:
  constexpr ByteSet() = default;

  static constexpr ByteSet Of(std::uint8_t byte) { return Range(byte, byte); }
  // first ... last, both included.
  static constexpr ByteSet Range(std::uint8_t first, std::uint8_t last) {
    ByteSet set;
    for (unsigned byte = first; byte <= last; ++byte) {
      set.words_[byte / 64] |= std::uint64_t{1} << (byte % 64);
    }
    return set;
  }
  static constexpr ByteSet All() { return Range(0, 255); }

  constexpr bool Has(std::uint8_t byte) const {
    return (words_[byte / 64] >> (byte % 64) & 1) != 0;
  }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr int size() const {
    int n = 0;
    for (const std::uint64_t word : words_) n += std::popcount(word);
    return n;
  }
  // The words of the set: bit b % 64 of word b / 64 stands for byte b.
  constexpr const std::array<std::uint64_t, 4>& words() const { return words_; }

  friend constexpr ByteSet operator|(ByteSet a, const ByteSet& b) {
    for (std::size_t i = 0; i < 4; ++i) a.words_[i] |= b.words_[i];
    return a;
  }
  friend constexpr ByteSet operator&(ByteSet a, const ByteSet& b) {
    for (std::size_t i = 0; i < 4; ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  friend constexpr ByteSet operator~(ByteSet a) {
    for (std::uint64_t& word : a.words_) word = ~word;
    return a;
  }
  friend constexpr auto operator<=>(const ByteSet&, const ByteSet&) = default;

 private:
  std::array<std::uint64_t, 4> words_{};
};

}  // namespace fathom::constraint
