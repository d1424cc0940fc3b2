// GumbelNoise: draws from softmax(z) as argmax of z + Gumbel noise (docs/numerics.md 9). The noise
// of a token depends only on the seed, the position, the choice and the token.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/tensor.h"
#include "sampling/philox.h"
#include "sampling/portable_math.h"

namespace fathom::sampling {

// The uses of random numbers: their counters differ, so that no number is used twice.
enum class NoisePurpose : std::uint32_t { kSample = 0 };

// The noise of all tokens at one position.
class GumbelNoise {
 public:
  constexpr GumbelNoise(std::uint64_t seed, std::uint32_t position, std::uint32_t choice)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        position_(position),
        choice_(choice) {}

  // Returns uniform bits for tokens 4 * block ... 4 * block + 3.
  constexpr std::array<std::uint32_t, 4> Block(std::uint32_t block) const {
    return Philox(key_,
                  {position_, choice_, static_cast<std::uint32_t>(NoisePurpose::kSample), block});
  }

 private:
  PhiloxKey key_;
  std::uint32_t position_;
  std::uint32_t choice_;
};

// The running maximum of z + noise, ties lowest id. Tokens may be offered in any order, and maxima
// of parts may be merged.
class NoisyMaximum {
 public:
  constexpr void Offer(float z, Token token, std::uint32_t bits) {
    const double logit = static_cast<double>(z);
    if (logit + GumbelBound(bits) < score_) return;
    const double score = logit + Gumbel(bits);
    if (score > score_ || (score == score_ && token < token_)) {
      score_ = score;
      token_ = token;
    }
  }
  // Returns true if no noise can make a token with this z the best.
  constexpr bool OutOfReach(float z) const {
    return static_cast<double>(z) + kGumbelMaximum < score_;
  }
  constexpr double score() const { return score_; }
  constexpr Token token() const { return token_; }

 private:
  double score_ = -std::numeric_limits<double>::infinity();
  Token token_ = std::numeric_limits<Token>::max();
};

}  // namespace fathom::sampling
