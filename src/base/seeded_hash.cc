#include "base/seeded_hash.h"

#include <unistd.h>
#include <xxhash.h>

namespace fathom {
namespace {

std::uint64_t DrawSeed() {
  std::uint64_t seed = 0;
  static_cast<void>(::getentropy(&seed, sizeof(seed)));  // without it tables can be slow, not wrong
  return seed;
}

std::size_t HashBytes(const void* bytes, std::size_t n_bytes) {
  static const std::uint64_t seed = DrawSeed();
  return XXH3_64bits_withSeed(bytes, n_bytes, seed);
}

}  // namespace

std::size_t SeededHash::operator()(std::string_view text) const {
  return HashBytes(text.data(), text.size());
}

std::size_t SeededHash::operator()(std::uint64_t number) const {
  return HashBytes(&number, sizeof(number));
}

}  // namespace fathom
