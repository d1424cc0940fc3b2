// Length: the number of tokens of a prompt or an answer.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "measure/load/random_stream.h"

namespace fathom::load {

inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 22;

struct Length {
  enum class Kind { kFixed, kUniform, kLogNormal };

  Kind kind = Kind::kFixed;
  std::int64_t low = 1;   // kFixed: the length; kUniform: the minimum
  std::int64_t high = 1;  // kUniform: the maximum
  double mean = 1;        // kLogNormal: mean of the lengths, before they are rounded and limited
  double sigma = 0;       // kLogNormal: standard deviation of the lengths' logarithm

  // Draws a length of 1 to kMaxTokens.
  std::int64_t Draw(RandomStream& random) const;
};

// Reads N, uniform:LOW:HIGH or lognormal:MEAN:SIGMA.
Result<Length> ParseLength(std::string_view text);

}  // namespace fathom::load
