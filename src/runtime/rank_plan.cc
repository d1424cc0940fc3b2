#include "runtime/rank_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "distributed/model_ranks.h"
#include "runtime/rank_counts.h"

namespace fathom {
namespace {

// Drafts read more experts: they do not pay where reading from disk takes most of the time.
constexpr double kDraftHitRate = 0.9;

bool HasRoomForDrafter(const HostPlan& host) { return host.fits || host.draft_resident; }

// For a plan that must have the drafter.
bool HasRoomBesideDrafter(const HostPlan& host) {
  return host.fits || (host.draft_resident && host.hit_rate >= kDraftHitRate);
}

// The attempts of PlanShares, of which the last counts.
struct Attempts {
  const ModelConfig& config;
  const Checkpoint& checkpoint;
  std::span<const HostShare> shares;
  int n_threads;
  std::int64_t budget;
  const AskAll& ask;
  LoadPlan planned{};
  Result<HostPlans> plans = HostPlans();

  void Try(const LoadPlan& wanted) {
    planned = wanted;
    plans = PlanStepsOfShares(config, checkpoint, shares, planned, n_threads, budget, ask);
  }
  Result<bool> Have(bool (*has_room)(const HostPlan&)) const {
    return ask(plans && std::ranges::all_of(*plans, has_room));
  }
};

// A drafter that is optional stays where there is room for it, or where nearly all experts that are
// chosen are in memory beside it (docs/spec/streaming.md 2.6). Errors: those of AskAll.
Status ChooseDrafter(LoadPlan plan, Attempts& attempts) {
  attempts.Try(plan);
  if (!plan.sizes.with_draft || !plan.drafts_are_optional) return {};
  Result<bool> fits = attempts.Have(HasRoomForDrafter);
  if (fits && !*fits) {
    plan.drafts_are_optional = false;
    attempts.Try(plan);
    fits = attempts.Have(HasRoomBesideDrafter);
  }
  if (!fits) return Unexpected(fits.error());
  if (!*fits) {
    plan.sizes.with_draft = false;
    attempts.Try(plan);
  }
  return {};
}

}  // namespace

Result<HostPlans> PlanShares(const ModelConfig& config, const Checkpoint& checkpoint,
                             std::span<const HostShare> shares, LoadPlan& plan, int n_threads,
                             std::int64_t budget, const AskAll& ask) {
  Attempts attempts = {.config = config,
                       .checkpoint = checkpoint,
                       .shares = shares,
                       .n_threads = n_threads,
                       .budget = budget,
                       .ask = ask};
  if (Status chosen = ChooseDrafter(plan, attempts); !chosen) return Unexpected(chosen.error());
  if (!attempts.plans) return Unexpected(attempts.plans.error());
  HostPlans plans = *std::move(attempts.plans);
  const Result<bool> fit = ask(std::ranges::all_of(plans, &HostPlan::fits));
  if (!fit) return Unexpected(fit.error());
  for (HostPlan& host : plans) {
    if (*fit || !host.fits) continue;
    Result<HostPlan> streams = PlanHostMemory(host.needs, budget, /*streams=*/true);
    if (!streams) return Unexpected(streams.error());
    host = *std::move(streams);
  }
  plan = std::move(attempts.planned);
  return plans;
}

Result<std::vector<RankPlan>> PlanAllRanks(const ModelConfig& config, const Checkpoint& checkpoint,
                                           const RankOptions& options, int n_ranks, LoadPlan plan,
                                           int n_threads, std::int64_t budget) {
  Result<RankCounts> counts = CountRanks(options, n_ranks, config);
  if (!counts) return Unexpected(counts.error());
  if (Status divides = CheckCounts(config, *counts, n_ranks); !divides) {
    return Unexpected(divides.error());
  }
  counts->expert_path = ChooseExpertPath(config, *counts);
  const StageWeights weights = WeighStages(checkpoint, config);
  std::vector<HostShare> shares;
  for (int rank = 0; rank < n_ranks; ++rank) {
    shares.push_back({.shard = ShardOfRank(rank, *counts, weights)});
  }
  Result<HostPlans> plans = PlanShares(config, checkpoint, shares, plan,
                                       std::max(n_threads / n_ranks, 1), budget, AskNobody);
  if (!plans) return Unexpected(plans.error());
  std::vector<RankPlan> ranks;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    ranks.push_back({.stage = shares[i].shard.stage, .plan = (*plans)[i]});
  }
  return ranks;
}

}  // namespace fathom
