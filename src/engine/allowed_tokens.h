// AllowedTokens: the tokens that a constraint and the request's rules for the end of the answer
// allow (docs/spec/constrained.md 1.4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/mask_pool.h"

namespace fathom::engine {

// The message of an error about a constraint begins with one of these and ": ".
inline constexpr std::string_view kConstraintTooComplex = "constraint_too_complex";
inline constexpr std::string_view kConstraintUnsatisfiable = "constraint_unsatisfiable";

// A view: the arguments of Find must outlive it.
class AllowedTokens {
 public:
  // Lists are ascending, without duplicates, and in the vocabulary. `stops` end the answer and are
  // allowed only where the constraint lets it end. `postponed` tokens (min_tokens, ignore_eos) are
  // excluded if the constraint leaves any other. Errors: the constraint's; constraint_unsatisfiable
  // if nothing is left.
  static Result<AllowedTokens> Find(const FoundMask& found, std::span<const Token> stops,
                                    std::span<const Token> postponed, std::int64_t vocab_size);

  bool Has(Token token) const;
  // Returns the token if only one is allowed.
  std::optional<Token> Only() const;
  // Sets the logits of all other tokens to kExcludedLogit.
  void Apply(std::span<float> logits) const;

 private:
  const TokenMask* mask_ = nullptr;
  std::span<const Token> stops_;      // stops to exclude
  std::span<const Token> postponed_;  // postponed tokens to exclude
  std::int64_t n_ = 0;
};

}  // namespace fathom::engine
