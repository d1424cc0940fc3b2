#include "planning/host_shares.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "distributed/model_ranks.h"

namespace fathom::planning {
namespace {

constexpr std::int64_t kMostStepTokens = 8192;  // the longest of steps that grow

// Drafts read more experts: they do not pay if reading from disk takes most of the time.
constexpr double kDraftHitRate = 0.9;

bool HasRoomForDrafter(const HostPlan& host) { return host.fits || host.draft_resident; }

// Used for a plan that includes the drafter.
bool HasRoomBesideDrafter(const HostPlan& host) {
  return host.fits || (host.draft_resident && host.hit_rate >= kDraftHitRate);
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

Result<HostPlans> PlanLongSteps(std::int64_t step_tokens, std::int64_t most,
                                const std::function<Result<HostPlans>(std::int64_t)>& plan,
                                const AgreeOnAllRanks& ask) {
  Result<HostPlans> plans = plan(step_tokens);
  const Result<bool> have = ask(plans.has_value());
  if (!have) return Unexpected(have.error());
  if (!*have) return plans;
  const Result<bool> fit = ask(std::ranges::all_of(*plans, &HostPlan::fits));
  if (!fit) return Unexpected(fit.error());
  if (*fit) return plans;
  for (std::int64_t n = kMostStepTokens; n > step_tokens; n /= 2) {
    if (n / 2 >= most) continue;
    const std::int64_t share = n == kMostStepTokens ? 20 : 10;  // 5 or 10 %
    Result<HostPlans> longer = plan(std::min(n, most));
    const Result<bool> are_small =
        ask(longer && std::ranges::all_of(*longer, [&](const HostPlan& host) {
              return host.needs.activations <= host.budget / share;
            }));
    if (!are_small) return Unexpected(are_small.error());
    if (*are_small) return longer;
  }
  return plans;
}

Result<HostPlans> PlanStepsOfShares(NeedsFinder& finder, LoadPlan& plan,
                                    const AgreeOnAllRanks& ask) {
  const auto plan_all = [&](std::int64_t step_tokens) -> Result<HostPlans> {
    LoadPlan planned = plan;
    planned.sizes.max_batch_tokens = step_tokens;
    HostPlans plans;
    for (std::size_t share = 0; share < finder.n_shares(); ++share) {
      const Result<HostNeeds> needs = finder.Find(share, planned);
      if (!needs) return Unexpected(needs.error());
      Result<HostPlan> one = PlanHostMemory(*needs, finder.budget());
      if (!one) return Unexpected(one.error());
      plans.push_back(*std::move(one));
    }
    return plans;
  };
  const ModelOptions& sizes = plan.sizes;
  Result<HostPlans> plans =
      plan.steps_may_grow ? PlanLongSteps(sizes.max_batch_tokens,
                                          sizes.max_sequences * sizes.max_context, plan_all, ask)
                          : plan_all(sizes.max_batch_tokens);
  if (plans) plan.sizes.max_batch_tokens = plans->front().needs.step_tokens;
  return plans;
}

Result<HostPlans> PlanShares(NeedsFinder& finder, LoadPlan& plan, const PlanningPeers& peers) {
  LoadPlan wanted = plan;
  LoadPlan planned = wanted;
  Result<HostPlans> plans = PlanStepsOfShares(finder, planned, peers.ask);
  const auto plan_again = [&] {
    planned = wanted;
    plans = PlanStepsOfShares(finder, planned, peers.ask);
  };
  const auto have_room = [&](bool (*has_room)(const HostPlan&)) {
    return peers.ask(plans && std::ranges::all_of(*plans, has_room));
  };
  if (wanted.sizes.with_draft && wanted.drafts_are_optional) {
    Result<bool> fits = have_room(HasRoomForDrafter);
    if (fits && !*fits) {
      wanted.drafts_are_optional = false;
      plan_again();
      fits = have_room(HasRoomBesideDrafter);
    }
    if (!fits) return Unexpected(fits.error());
    if (!*fits) {
      wanted.sizes.with_draft = false;
      plan_again();
    }
  }
  Status shared = peers.share(plans ? Status() : Unexpected(plans.error()));
  if (!shared) return Unexpected(shared.error());
  const Result<bool> fit = peers.ask(std::ranges::all_of(*plans, &HostPlan::fits));
  if (!fit) return Unexpected(fit.error());
  if (!*fit) shared = peers.share(StreamAll(finder.budget(), *plans));
  if (!shared) return Unexpected(shared.error());
  plan = std::move(planned);
  return plans;
}

Result<HostPlans> PlanHost(const ModelConfig& config, const Checkpoint& checkpoint, LoadPlan plan,
                           int n_threads, std::int64_t budget) {
  NeedsFinder finder(config, checkpoint, {{.shard = WholeModel(config)}}, n_threads, budget);
  return PlanStepsOfShares(finder, plan);
}

Result<HostPlans> PlanAllRanks(const ModelConfig& config, const Checkpoint& checkpoint,
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
  NeedsFinder finder(config, checkpoint, std::move(shares), std::max(n_threads / n_ranks, 1),
                     budget);
  return PlanShares(finder, plan);
}

}  // namespace fathom::planning
