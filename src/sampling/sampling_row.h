// SamplingRow: the inputs, beside the logits, for choosing a token from a row, and the rules that
// the host and devices share (docs/spec/sampling.md 2).
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/tensor.h"
#include "sampling/portable_math.h"

namespace fathom::sampling {

inline constexpr float kExcludedLogit = -std::numeric_limits<float>::infinity();
inline constexpr double kNoMinP = -std::numeric_limits<double>::infinity();

// The parameters of a row; plain, so that they can be copied to a device unchanged.
struct SamplingRule {
  std::uint64_t seed = 0;
  std::uint32_t position = 0;  // position of the chosen token in the sequence
  std::uint32_t choice = 0;    // number among the answers to one prompt
  double top_p = 1.0;          // 1: off
  double lowest = kNoMinP;     // lowest z, with min-p: LowestOfMinP
  std::int64_t top_k = 0;      // 0: off
  float temperature = 1.0f;
  float repetition = 1.0f;  // penalties
  float frequency = 0.0f;
  float presence = 0.0f;
  bool is_greedy = false;       // the largest logit is chosen; nothing is drawn
  bool truncates = false;       // min-p, top-k or top-p is on
  bool changes_logits = false;  // a list of the row is not empty
};

struct TokenBias {
  Token token = 0;
  float bias = 0.0f;
};

// A token of the prompt or the output, and its number of occurrences in the output.
struct TokenCount {
  Token token = 0;
  std::int32_t count = 0;
};

// A row with its changes of logits, which apply in this order. Each list names a token at most
// once.
struct SamplingRow {
  SamplingRule rule;
  std::span<const Token> excluded;  // tokens that get -inf; may name a token more than once
  std::span<const TokenBias> biases;
  std::span<const TokenCount> counts;  // tokens that get the penalties
  bool is_chosen = true;      // false: only the logits are of use, and the choice may be anything
  bool needs_logits = false;  // the host gets the logits, too
};

enum class ChoiceOutcome : std::int32_t {
  kToken,
  kNotFinite,     // the logit of a token is NaN or infinite
  kNothingIsLeft  // after the changes of logits, no token is possible
};

// The chosen token of a row; or the first token with a logit that is not finite; or no token.
struct TokenChoice {
  ChoiceOutcome outcome = ChoiceOutcome::kToken;
  Token token = 0;
  float logit = 0.0f;  // kNotFinite: the token's logit; kNothingIsLeft: the largest
};

// Applies the penalties to a token of the prompt or the output.
constexpr float Penalize(float logit, std::int32_t count, const SamplingRule& rule) {
  float penalized = logit > 0 ? logit / rule.repetition : logit * rule.repetition;
  if (count > 0) {
    penalized -= rule.frequency * static_cast<float>(count);
    penalized -= rule.presence;
  }
  return penalized;
}

// Returns z of a logit: the best token has 0.
constexpr float ScaledLogit(float logit, float largest, float temperature) {
  return (logit - largest) / temperature;
}

// Returns the lowest z that min-p keeps: p >= min_p * p_max means z >= ln(min_p). Where min-p is
// off, the result is below the z of every weight that is not 0, and nothing is dropped.
constexpr double LowestOfMinP(double min_p) {
  return min_p < 0x1p-1000 ? kNoMinP : PortableLog(min_p);
}

// Returns the least sum of weights, out of `total`, that top-p keeps: rounded up, and never 0, so
// that the best token stays.
constexpr std::uint64_t WeightOfTopP(double top_p, std::uint64_t total) {
  const double exact = top_p * static_cast<double>(total);
  const auto whole = static_cast<std::uint64_t>(exact);
  const std::uint64_t share = whole + (static_cast<double>(whole) < exact ? 1 : 0);
  return share > 0 ? share : 1;
}

}  // namespace fathom::sampling
