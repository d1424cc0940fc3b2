#include "measure/plan/expert_spread.h"

#include <cmath>
#include <numbers>

namespace fathom::measure::plan {
namespace {

std::vector<float> Floats(std::span<const double> shares) {
  std::vector<float> floats;
  for (const double share : shares) floats.push_back(static_cast<float>(share));
  return floats;
}

}  // namespace

// Returns the integral of 1 - Phi(x)^n above 0, minus the integral of Phi(x)^n below.
double ExpectedMaximum(std::int64_t n) {
  constexpr double kEnd = 8;  // the tail beyond is negligible
  constexpr double kStep = 1.0 / 128;
  double mean = 0;
  for (double x = kStep / 2; n > 1 && x < kEnd; x += kStep) {
    const double below = 0.5 * std::erfc(x / std::numbers::sqrt2);  // Phi(-x)
    const auto power = static_cast<double>(n);
    mean += kStep * (1 - std::pow(1 - below, power) - std::pow(below, power));
  }
  return mean;
}

std::vector<PlannedWork> SpreadWork(std::span<const double> shares,
                                    const ExpertPlacement& placement, std::int64_t n_ranks,
                                    std::int64_t n_tokens) {
  const std::vector<std::int32_t>& logical = placement.physical_to_logical;
  const std::size_t per_rank = logical.size() / static_cast<std::size_t>(n_ranks);
  const auto n = static_cast<double>(n_tokens);
  std::vector<PlannedWork> ranks;
  for (std::size_t first = 0; first < logical.size(); first += per_rank) {
    PlannedWork work = {.n_held = static_cast<double>(per_rank)};
    double experts_variance = 0, rows_variance = 0;
    for (std::size_t p = first; p < first + per_rank; ++p) {
      const auto expert = static_cast<std::size_t>(logical[p]);
      const double share =
          shares[expert] / static_cast<double>(placement.logical_to_physical[expert].size());
      const double is_read = 1 - std::pow(1 - share, n);
      work.n_experts += is_read;
      experts_variance += is_read * (1 - is_read);
      work.n_rows += n * share;
      rows_variance += n * share * (1 - share);
    }
    work.n_experts_deviation = std::sqrt(experts_variance);
    work.n_rows_deviation = std::sqrt(rows_variance);
    ranks.push_back(work);
  }
  return ranks;
}

ExpertPlacement PlaceExperts(std::span<const double> shares,
                             std::optional<std::int64_t> n_redundant, std::int64_t n_ranks) {
  const ExpertCounts counts = {.n_logical = std::ssize(shares),
                               .n_physical = std::ssize(shares) + n_redundant.value_or(0),
                               .n_ranks = n_ranks};
  return n_redundant ? BalanceExperts(Floats(shares), counts) : InitialPlacement(counts);
}

double ComputeImbalance(std::span<const double> shares, const ExpertPlacement& placement,
                        std::int64_t n_ranks) {
  return RankImbalance(Floats(shares), placement, n_ranks);
}

}  // namespace fathom::measure::plan
