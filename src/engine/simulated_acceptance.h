// SimulatedAcceptance: accepts drafts at a given rate, for measurements of speed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "sampling/sampling_row.h"

namespace fathom::engine {

// Changes the choices that verify drafted tokens so that the token is chosen, or is not chosen: the
// answers are not answers of any real model. Of every 20 drafts at an index, the number that the
// rate demands is right, in random order: two short answers differ by the measured change, not by
// the luck of their drafts. One thread at a time.
class SimulatedAcceptance {
 public:
  // rate: the share of drafts that are right, 0 to 1.
  SimulatedAcceptance(double rate, std::int64_t vocab_size)
      : rate_(rate), vocab_size_(vocab_size) {}

  // Returns the choice that verifies the draft at `index` of a sequence, all drafts before which
  // were right: `choice`, or another that agrees with the decision.
  TokenChoice Verify(std::int64_t index, Token draft, const TokenChoice& choice);

 private:
  // Drafts at one index.
  struct Verified {
    std::int64_t n = 0;
    std::int64_t n_right = 0;
  };
  bool Decide(std::int64_t index);

  const double rate_;
  const std::int64_t vocab_size_;
  std::vector<Verified> verified_;  // by index
};

}  // namespace fathom::engine
