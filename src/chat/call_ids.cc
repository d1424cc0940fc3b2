#include "chat/call_ids.h"

#include <random>

namespace fathom::chat {

RandomBits SystemRandomBits() {
  return [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | std::uint64_t{device()};
  };
}

std::string MakeId(std::string_view prefix, const RandomBits& random_bits) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kCharacters = 24;
  std::string id(prefix);
  const std::size_t length = id.size() + kCharacters;
  while (id.size() < length) {
    std::uint64_t bits = random_bits();
    // Ten groups of six bits; the two values beyond the alphabet are skipped to stay uniform.
    for (int group = 0; group < 10 && id.size() < length; ++group, bits >>= 6) {
      const std::size_t index = bits & 63;
      if (index < kAlphabet.size()) id.push_back(kAlphabet[index]);
    }
  }
  return id;
}

}  // namespace fathom::chat
