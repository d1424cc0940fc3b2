// Log-probabilities of one row of raw logits (docs/spec/sampling.md 7).
#pragma once

#include <span>

#include "engine/request.h"

namespace fathom {

// log-softmax of `logits` (finite, not empty) at `chosen`, and its `count` largest values; the
// normaliser is summed in double, by ascending id. Allocates nothing if out.top has room for
// `count` entries.
void ComputeLogprobs(std::span<const float> logits, Token chosen, int count, TokenLogprobs& out);

}  // namespace fathom
