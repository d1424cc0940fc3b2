// Length: how many tokens a prompt or an answer has.
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
  std::int64_t low = 1;   // kFixed: the length; kUniform: the least
  std::int64_t high = 1;  // kUniform: the most
  double mean = 1;        // kLogNormal: of the lengths, before they are rounded and limited
  double sigma = 0;       // kLogNormal: the deviation of their logarithm

  // 1 to kMaxTokens.
  std::int64_t Draw(RandomStream& random) const;
};

// N, uniform:LOW:HIGH or lognormal:MEAN:SIGMA.
Result<Length> ParseLength(std::string_view text);

}  // namespace fathom::load
