// min-p, top-k, top-p: which tokens may be drawn (docs/spec/sampling.md 2, steps 6 to 8).
//
// Tokens are ordered by descending logit, ties by ascending id: a strict order, so the kept set is
// unique. Weights are fixed-point integers, so their sums do not depend on the order of addition.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "engine/request.h"

namespace fathom {

struct Candidate {
  float logit = 0;  // (logit - largest logit) / temperature: the best candidate has 0
  Token token = 0;
};

// True if any of the three is on.
bool Truncates(const SamplingParameters& parameters);

// Removes what min-p, top-k and top-p remove, in this order; at least one candidate stays. At most
// 2^18 candidates, one of them with logit 0. Their order afterwards is unspecified. Allocates
// nothing.
void Truncate(const SamplingParameters& parameters, std::vector<Candidate>& candidates);

}  // namespace fathom
