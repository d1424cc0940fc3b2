// Truncate: decides by min-p, top-k and top-p which tokens may be drawn (docs/spec/sampling.md 2,
// steps 6 to 8).
//
// Tokens are ordered by descending logit, ties by ascending id: a strict order, so the kept set is
// unique. Weights are fixed-point integers, so their sums do not depend on the order of addition.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "sampling/sampling_row.h"

namespace fathom::sampling {

struct Candidate {
  float logit = 0;  // (logit - largest logit) / temperature: the best candidate has 0
  Token token = 0;
};

// Removes the tokens that min-p, top-k and top-p exclude, in this order; at least one candidate
// stays. One of the candidates has logit 0. Leaves them in an unspecified order. Allocates nothing.
void Truncate(const SamplingRule& rule, std::vector<Candidate>& candidates);

}  // namespace fathom::sampling
