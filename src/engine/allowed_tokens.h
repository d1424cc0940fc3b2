// AllowedTokens: the tokens that a constraint leaves, with what the request says of the end of the
// answer (docs/spec/constrained.md 1.4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/mask_pool.h"

namespace fathom {

// The message of an error about a constraint begins with one of these and ": ".
inline constexpr std::string_view kConstraintTooComplex = "constraint_too_complex";
inline constexpr std::string_view kConstraintUnsatisfiable = "constraint_unsatisfiable";

// A view: what it was made of must outlive it.
class AllowedTokens {
 public:
  // Lists are ascending, without duplicates, and in the vocabulary. `stops` end the answer and are
  // allowed only where the constraint lets it end. `postponed` tokens (min_tokens, ignore_eos) are
  // excluded if the constraint leaves any other. Errors: the constraint's; constraint_unsatisfiable
  // if nothing is left.
  static Result<AllowedTokens> Find(const FoundMask& found, std::span<const Token> stops,
                                    std::span<const Token> postponed, std::int64_t vocab_size);

  bool Has(Token token) const;
  // The token, if it is the only one.
  std::optional<Token> Only() const;
  // Sets the logits of all other tokens to kExcludedLogit.
  void Apply(std::span<float> logits) const;

 private:
  const TokenMask* mask_ = nullptr;
  std::span<const Token> stops_;      // that are excluded
  std::span<const Token> postponed_;  // likewise
  std::int64_t n_ = 0;
};

}  // namespace fathom
