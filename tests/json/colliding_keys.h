// Texts that std::hash of GNU's standard library maps to one number: what an attacker sends as the
// keys of an object.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace fathom::testing {

// The hash is MurmurHash64A with the seed 0xc70f6907. Each 8 bytes change its state by a function
// that can be inverted: for any first 8 bytes of a pair there are 8 more that lead to the same
// state. Two such pairs, each chosen from some, make the keys.
class CollidingKeys {
 public:
  // Returns n different texts of 32 bytes below 0x80, control characters among them.
  static std::vector<std::string> Make(std::size_t n) {
    std::size_t per_pair = 1;
    while (per_pair * per_pair < n) ++per_pair;
    const std::uint64_t begin = 0xc70f6907 ^ (32 * kMultiplier);
    const std::vector<std::string> first = Pairs(begin, per_pair);
    const std::vector<std::string> second = Pairs(kMiddle, per_pair);
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < n; ++i) {
      keys.push_back(first[i / per_pair] + second[i % per_pair]);
    }
    return keys;
  }

 private:
  static constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  static constexpr std::uint64_t kMiddle = 0x0123456789abcdef;  // the state behind each pair

  static std::uint64_t Inverse() {
    std::uint64_t inverse = kMultiplier;  // Newton's method doubles the bits that are right
    for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
    return inverse;
  }
  static std::uint64_t ShiftMix(std::uint64_t v) { return v ^ (v >> 47); }
  static std::uint64_t Mix(std::uint64_t block) {
    return ShiftMix(block * kMultiplier) * kMultiplier;
  }

  // Returns texts of 16 bytes that lead from the state to kMiddle.
  static std::vector<std::string> Pairs(std::uint64_t state, std::size_t n) {
    constexpr std::uint64_t kNotAscii = 0x8080808080808080;
    const std::uint64_t inverse = Inverse();
    std::vector<std::string> pairs;
    for (std::uint64_t i = 0; pairs.size() < n; ++i) {
      std::uint64_t blocks[2] = {0x2020202020202020 + i % 64 + ((i / 64 % 64) << 8) +
                                     ((i / 4096 % 64) << 16) + ((i / 262144) << 24),
                                 0};
      const std::uint64_t between = (state ^ Mix(blocks[0])) * kMultiplier;
      const std::uint64_t mixed = (kMiddle * inverse) ^ between;
      blocks[1] = ShiftMix(mixed * inverse) * inverse;
      if (((blocks[0] | blocks[1]) & kNotAscii) != 0) continue;
      std::string& pair = pairs.emplace_back(sizeof(blocks), '\0');
      std::memcpy(pair.data(), blocks, sizeof(blocks));
    }
    return pairs;
  }
};

}  // namespace fathom::testing
