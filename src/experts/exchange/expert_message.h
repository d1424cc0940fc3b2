// The message that sends tokens to another rank's experts: tokens as E4M3, and the chosen experts.
//
//   DispatchCounts             8 bytes, a message of its own: the sizes of the next message
//   then, if there are tokens, one message:
//   ExpertPair [n_pairs]       12 bytes each, by token
//   codes      [n_tokens, d]   E4M3
//   scales     [n_tokens, d / 128]  E8M0: the exponents of the powers of two
//
// The activations are quantised per 128 columns, as products with FP8 and FP4 weights quantise
// their inputs (docs/numerics.md 2). Unpacked to bf16, which is exact, they are quantised once more
// by the product, without loss: the scale is the same, or half of it where the largest code is 224,
// and then every code is doubled. Both are powers of two, which commute with every rounding of the
// products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "base/namespaces.h"
#include "kernels/weight_format.h"

namespace fathom::experts {

struct DispatchCounts {
  std::int32_t n_tokens = 0;
  std::int32_t n_pairs = 0;
};

// A token and an expert that it chose.
struct ExpertPair {
  std::int32_t token = 0;   // index among the tokens of the message
  std::int32_t expert = 0;  // number of the logical expert
  float weight = 0;
};
static_assert(sizeof(DispatchCounts) == 8 && sizeof(ExpertPair) == 12);

constexpr std::int64_t PackedTokenBytes(std::int64_t hidden) { return hidden + hidden / kFp8Block; }
constexpr std::int64_t DispatchBytes(const DispatchCounts& counts, std::int64_t hidden) {
  return counts.n_pairs * static_cast<std::int64_t>(sizeof(ExpertPair)) +
         counts.n_tokens * PackedTokenBytes(hidden);
}

// The parts of a message, in memory that is aligned to 4 bytes.
struct DispatchView {
  std::span<ExpertPair> pairs;
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
};
DispatchView ViewDispatch(std::byte* message, const DispatchCounts& counts, std::int64_t hidden);

// Converts x [hidden] to codes [hidden] and scales [hidden / 128], and back to the same numbers.
void PackToken(std::span<const Bf16> x, std::uint8_t* codes, std::uint8_t* scales);
void UnpackToken(const std::uint8_t* codes, const std::uint8_t* scales, std::span<Bf16> x);

}  // namespace fathom::experts
