// Computes the log-probabilities of one row of raw logits (docs/spec/sampling.md 7).
#pragma once

#include <span>

#include "engine/request.h"

namespace fathom::engine {

// Computes the log-softmax of `logits` (not empty) at `chosen`, the rank of `chosen`, and the
// `count` largest values. A logit may be -inf, and so is then its log-probability, but not all of
// them may be; none is NaN or +inf. The normaliser is a sum of fixed-point weights
// (probability_weight.h): any permutation of the logits gives the same bits. The log-probabilities
// of n < 2^19 logits differ by at most n 2^-45 + 2^-46 from the exact values, before they are
// rounded to fp32. Allocates nothing if out.top has room for `count` entries.
void ComputeLogprobs(std::span<const float> logits, Token chosen, int count, TokenLogprobs& out);

}  // namespace fathom::engine
