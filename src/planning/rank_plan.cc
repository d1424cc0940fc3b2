#include "planning/rank_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "distributed/model_ranks.h"
#include "planning/rank_counts.h"

namespace fathom {
namespace {

// Drafts read more experts: they do not pay if reading from disk takes most of the time.
constexpr double kDraftHitRate = 0.9;

bool HasRoomForDrafter(const HostPlan& host) { return host.fits || host.draft_resident; }

// Used for a plan that includes the drafter.
bool HasRoomBesideDrafter(const HostPlan& host) {
  return host.fits || (host.draft_resident && host.hit_rate >= kDraftHitRate);
}

// The attempts of PlanShares; the last one is the result.
struct Attempts {
  NeedsFinder& finder;
  const AgreeOnAllRanks& ask;
  LoadPlan planned{};
  Result<HostPlans> plans = HostPlans();

  void Try(const LoadPlan& wanted) {
    planned = wanted;
    plans = PlanStepsOfShares(finder, planned, ask);
  }
  Result<bool> Have(bool (*has_room)(const HostPlan&)) const {
    return ask(plans && std::ranges::all_of(*plans, has_room));
  }
};

// Keeps an optional drafter if there is room for it, or if nearly all chosen experts are in memory
// beside it (docs/spec/streaming.md 2.6). Errors: see AgreeOnAllRanks.
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

// Plans a pool of experts although all of them fit, because a peer has a pool.
Status StreamAll(std::int64_t budget, HostPlans& plans) {
  for (HostPlan& host : plans) {
    if (!host.fits) continue;
    Result<HostPlan> streams = PlanHostMemory(host.needs, budget, /*streams=*/true);
    if (!streams) return Unexpected(streams.error());
    host = *std::move(streams);
  }
  return {};
}

}  // namespace

Result<HostPlans> PlanShares(NeedsFinder& finder, LoadPlan& plan, const PlanningPeers& peers) {
  Attempts attempts = {.finder = finder, .ask = peers.ask};
  if (Status chosen = ChooseDrafter(plan, attempts); !chosen) return Unexpected(chosen.error());
  Result<HostPlans>& plans = attempts.plans;
  Status planned = peers.share(plans ? Status() : Unexpected(plans.error()));
  if (!planned) return Unexpected(planned.error());
  const Result<bool> fit = peers.ask(std::ranges::all_of(*plans, &HostPlan::fits));
  if (!fit) return Unexpected(fit.error());
  if (!*fit) planned = peers.share(StreamAll(finder.budget(), *plans));
  if (!planned) return Unexpected(planned.error());
  plan = std::move(attempts.planned);
  return std::move(plans);
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
  NeedsFinder finder(config, checkpoint, shares, std::max(n_threads / n_ranks, 1), budget);
  const Result<HostPlans> plans = PlanShares(finder, plan);
  if (!plans) return Unexpected(plans.error());
  std::vector<RankPlan> ranks;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    ranks.push_back({.stage = shares[i].shard.stage, .plan = (*plans)[i]});
  }
  return ranks;
}

}  // namespace fathom
