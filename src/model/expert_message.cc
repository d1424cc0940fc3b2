#include "model/expert_message.h"

#include <algorithm>
#include <bit>

namespace fathom {
namespace {

// Encode and Decode are FloatToE4m3 and E4m3ToFloat (base/float_types.h) without branches, so that
// the compiler makes vectors of the loops below.

// NaN does not count. Magnitudes of bf16 are ordered like their bits.
float Largest(const Bf16* block) {
  std::int16_t largest = 0;
  for (std::int64_t i = 0; i < kFp8Block; ++i) {
    const auto bits = static_cast<std::int16_t>(block[i].bits & 0x7FFF);
    largest = std::max(largest, bits > 0x7F80 ? std::int16_t{0} : bits);
  }
  return ToFloat(Bf16{static_cast<std::uint16_t>(largest)});
}

std::uint8_t Encode(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t magnitude = bits & 0x7FFFFFFF;
  // Below 2^-6 codes are 2^-9 apart: adding 2^14 rounds at that bit.
  const float shifted = std::bit_cast<float>(std::min(magnitude, 0x3C800000)) + 0x1p14f;
  const std::int32_t small = std::bit_cast<std::int32_t>(shifted) & 0xF;
  const std::int32_t clamped = std::min(magnitude, 0x43E00000);  // 448
  const std::int32_t normal = ((clamped + 0x7FFFF + ((clamped >> 20) & 1)) >> 20) - (120 << 3);
  const std::int32_t number = magnitude < 0x3C800000 ? small : normal;
  const std::int32_t code = magnitude > 0x7F800000 ? 0x7F : number;
  return static_cast<std::uint8_t>(code | ((bits >> 24) & 0x80));
}

// The bits of a code, as those of a float, are the number times 2^-120.
Bf16 Decode(std::uint8_t code, float scale) {
  const std::uint32_t magnitude = code & 0x7Fu;
  const float number = std::bit_cast<float>(magnitude << 20) * 0x1p120f * scale;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(number) >> 16;  // exact
  const std::uint32_t sign = (code & 0x80u) << 8;
  return {static_cast<std::uint16_t>((magnitude == 0x7Fu ? 0x7FC0u : bits) | sign)};
}

}  // namespace

DispatchView ViewDispatch(std::byte* message, const DispatchCounts& counts, std::int64_t hidden) {
  DispatchView view;
  view.pairs = {reinterpret_cast<ExpertPair*>(message), static_cast<std::size_t>(counts.n_pairs)};
  view.codes = reinterpret_cast<std::uint8_t*>(view.pairs.data() + counts.n_pairs);
  view.scales = view.codes + counts.n_tokens * hidden;
  return view;
}

void PackToken(std::span<const Bf16> x, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::size_t first = 0; first < x.size(); first += kFp8Block) {
    const Bf16* const block = x.data() + first;
    const float scale = PowerOfTwoScale(Largest(block), kE4m3Floor, kE4m3Maximum);
    const float inverse = 1.0f / scale;
    for (std::size_t i = 0; i < kFp8Block; ++i) {
      codes[first + i] = Encode(ToFloat(block[i]) * inverse);
    }
    scales[first / kFp8Block] =
        static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23);
  }
}

void UnpackToken(const std::uint8_t* codes, const std::uint8_t* scales, std::span<Bf16> x) {
  for (std::size_t first = 0; first < x.size(); first += kFp8Block) {
    const float scale = E8m0ToFloat(scales[first / kFp8Block]);
    for (std::size_t i = first; i < first + kFp8Block; ++i) {
      x[i] = Decode(codes[i], scale);
    }
  }
}

}  // namespace fathom
