// The work of a step on the experts of one layer, divided among ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experts/balance/expert_balancer.h"

namespace fathom::measure::plan {

// Returns the mean of the largest of n independent normal numbers with mean 0 and deviation 1; 0
// for n = 1.
double ExpectedMaximum(std::int64_t n);

// The work of one rank in one step: means, and deviations if tokens choose independently.
struct PlannedWork {
  double n_held = 0;     // experts on the rank
  double n_experts = 0;  // different experts that are read
  double n_experts_deviation = 0;
  double n_rows = 0;  // pairs of token and expert
  double n_rows_deviation = 0;

  // Returns n_experts plus this many deviations. With ExpectedMaximum(n), this is the work of the
  // busiest of n such ranks.
  double ExpertsAbove(double n_deviations) const {
    return std::min(n_experts + n_deviations * n_experts_deviation, n_held);
  }
  double RowsAbove(double n_deviations) const { return n_rows + n_deviations * n_rows_deviation; }
};

// Returns the work of every rank for a step of n_tokens. shares: the share of tokens that choose
// each expert [logical]; a replica has its part of the share. An expert with share p is read with
// probability 1 - (1 - p)^n_tokens.
std::vector<PlannedWork> SpreadWork(std::span<const double> shares,
                                    const ExpertPlacement& placement, std::int64_t n_ranks,
                                    std::int64_t n_tokens);

// Returns the placement by the balancer with n_redundant replicas; missing: without balancing.
ExpertPlacement PlaceExperts(std::span<const double> shares,
                             std::optional<std::int64_t> n_redundant, std::int64_t n_ranks);
// Returns max / mean of the ranks' rows over many tokens.
double ComputeImbalance(std::span<const double> shares, const ExpertPlacement& placement,
                        std::int64_t n_ranks);

}  // namespace fathom::measure::plan
