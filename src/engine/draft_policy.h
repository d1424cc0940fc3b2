// DraftPolicy: how many tokens to draft, by what was measured.
//
// A step that verifies k drafted tokens of each of D sequences yields E(k) = 1 + a1 + a1 a2 + ... +
// a1 ... ak tokens each, where ai is the share of i-th drafted tokens that are right once those
// before them are, and takes the time T(D, k). The best depth has the largest E(k) / T(D, k).
#ifndef FATHOM_ENGINE_DRAFT_POLICY_H_
#define FATHOM_ENGINE_DRAFT_POLICY_H_

#include <array>
#include <cstdint>

#include "engine/metrics.h"

namespace fathom {

// Measures every depth a few times at each number of sequences (in powers of two), then takes the
// best and tries the others again rarely: what trying costs stays below 1 % of the time. With depth
// 0 the best, it is as if there were no drafts. One thread at a time.
class DraftPolicy {
 public:
  // fixed_depth 0: as described; else always that.
  explicit DraftPolicy(std::int64_t fixed_depth);

  // The depth of the next step, 0 to kMaxDraftDepth, in which n_sequences decode.
  std::int64_t Depth(std::int64_t n_sequences);

  // A step of n_sequences that all decode (no prompts beside them) took `seconds` in all, its own
  // drafting included, at this depth.
  void Measured(std::int64_t n_sequences, std::int64_t depth, double seconds);
  // The drafted token at `index` (0 the first) was verified, after those before it were right.
  void Verified(std::int64_t index, bool right);

  // Share of drafted tokens at `index` that were right lately.
  double Acceptance(std::int64_t index) const;

 private:
  std::int64_t fixed_depth_;
};

}  // namespace fathom

#endif  // FATHOM_ENGINE_DRAFT_POLICY_H_
