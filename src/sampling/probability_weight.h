// Represents probabilities relative to the largest one as integers, so that their sums depend
// neither on the order of addition nor on the division of a row (docs/numerics.md 9).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sampling/portable_math.h"

namespace fathom::sampling {

// Returns the weight of the largest of n >= 1 probabilities: 2^44, or with 2^19 of them or more the
// power of two with which the sum of all weights stays below 2^63.
constexpr double LargestWeight(std::size_t n) {
  return static_cast<double>(std::uint64_t{1}
                             << std::min(44, 63 - static_cast<int>(std::bit_width(n))));
}

// Returns the weight of a probability e^x times the largest one, whose weight is `largest`: rounded
// to nearest, halves up. x <= 0; the weight of -inf is 0. The conversion through a signed integer
// is one instruction.
constexpr std::uint64_t ProbabilityWeight(double x, double largest) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(PortableExp(x) * largest + 0.5));
}

}  // namespace fathom::sampling
