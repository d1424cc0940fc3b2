// HostPlan: decides which part of a model stays in the memory of a host, and predicts its decoding
// speed when all other weights are streamed from disk. One formula, for loading and for predictions
// (docs/spec/streaming.md 1).
//
// Memory is distributed in this order: activations, caches, the least pool of experts; the dense
// weights; the head; further experts; the drafter. A byte of the dense weights saves reading a byte
// per token; a byte of an expert saves this with the probability that the expert is chosen. The
// embedding stays mapped: a token reads one row.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "planning/host_needs.h"
#include "planning/options.h"

namespace fathom::planning {

struct HostPlan {
  std::int64_t budget = 0;
  HostNeeds needs;
  // All weights fit: they are mapped, and nothing is streamed. No other field is valid then.
  bool fits = false;
  std::int64_t resident = 0;  // bytes of dense weights and head in memory
  std::int64_t streamed = 0;  // other bytes of dense weights and head, read for each step
  std::int64_t n_slots = 0;   // experts in memory
  bool draft_resident = false;
  double hit_rate = 0;  // share of the experts chosen by tokens that are in memory

  double share() const;  // share of the experts in memory
  std::int64_t activations() const { return needs.Activations(!fits); }
  // Return the bytes that a token reads from disk, and from memory.
  double ReadPerToken() const;
  double TouchedPerToken() const;
  // Returns the seconds of a token of one sequence: reading from disk and from memory, where the
  // shorter time overlaps by 30 %.
  double SecondsPerToken(const HostSpeeds& speeds) const;
  // Returns how many times as long a byte of a chosen expert takes as a byte in memory, by the same
  // rule; 1 if all experts are in memory.
  double ExpertTime(const HostSpeeds& speeds) const;
};

// Returns the expected share of chosen experts that are in a pool with this share of all experts:
// measured points of an ideal choice on V4-Flash, interpolated over the logarithm of the share. A
// pool with the share `useless`, the slots that a step itself needs, has no hits.
double ExpectedHitRate(double share, double useless);

// Plans for `budget` bytes. streams: use a pool of experts even if all of them fit, because other
// ranks have a pool. Error kOutOfMemory: the budget is below activations, caches and the least
// pool; the message says how many bytes are enough and for what.
Result<HostPlan> PlanHostMemory(const HostNeeds& needs, std::int64_t budget, bool streams = false);

using HostPlans = std::vector<HostPlan>;

}  // namespace fathom::planning
