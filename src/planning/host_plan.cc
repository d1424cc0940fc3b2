#include "planning/host_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/gigabytes.h"
#include "base/integer_math.h"
#include "checkpoint/block_reader.h"
#include "distributed/rank_workspace.h"
#include "experts/exchange/exchanged_experts.h"
#include "experts/streaming/streaming_options.h"
#include "kernels/cpu/scratch_bytes.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "model/model_limits.h"
#include "model/workspace.h"
#include "planning/needs_finder.h"

namespace fathom {
namespace {

constexpr std::int64_t kInFlightSlots = 12;
constexpr std::int64_t kMostStepTokens = 8192;  // the longest of steps that grow
constexpr double kOverlap = 0.3;                // part of the shorter read time, of disk or memory

// The share of the experts in memory and the share of choices that they serve: the best fixed set
// over 31,841 selections of V4-Flash; at the end, 1 for all.
struct CurvePoint {
  double share;
  double hits;
};
constexpr std::array kCurve = {CurvePoint{.031, .36}, CurvePoint{.063, .46}, CurvePoint{.125, .58},
                               CurvePoint{.25, .71},  CurvePoint{.5, .87},   CurvePoint{.75, .96},
                               CurvePoint{1, 1}};

double Interpolate(const CurvePoint& low, const CurvePoint& high, double share) {
  const double way = std::log(share / low.share) / std::log(high.share / low.share);
  return low.hits + way * (high.hits - low.hits);
}

double Number(std::int64_t x) { return static_cast<double>(x); }

// Returns the bytes without which no step can run.
std::int64_t LeastBytes(const HostNeeds& needs) {
  return needs.activations + needs.pauses + needs.caches + needs.LeastSlots() * needs.slot;
}

std::string DescribeLeast(const HostPlan& plan) {
  const HostNeeds& needs = plan.needs;
  const std::string pool = fmt::format("for {} experts", needs.LeastSlots());
  const std::pair<std::int64_t, std::string_view> parts[] = {
      {needs.caches, "caches"},
      {plan.activations(), "activations"},
      {needs.LeastSlots() * needs.slot, pool}};
  return DescribeParts(parts);
}

// Distributes the bytes that remain after the least pool.
void Fill(HostPlan& plan, std::int64_t rest) {
  const HostNeeds& needs = plan.needs;
  const std::int64_t draft = needs.must_draft ? needs.draft : 0;
  const std::int64_t all = needs.dense + needs.head + draft;
  plan.resident = std::min(all, rest);
  plan.streamed = all - plan.resident;
  rest -= plan.resident;
  const std::int64_t n_experts = needs.n_experts + (needs.must_draft ? needs.n_draft_experts : 0);
  plan.n_slots = std::min(n_experts, needs.LeastSlots() + rest / needs.slot);
  rest -= (plan.n_slots - needs.LeastSlots()) * needs.slot;
  plan.draft_resident = needs.must_draft ? plan.streamed == 0 : needs.DraftBytes() <= rest;
  plan.hit_rate =
      ExpectedHitRate(plan.share(), Number(needs.WantedSlots()) / Number(needs.n_experts));
}

double Overlapped(double disk, double memory) {
  return disk + memory - kOverlap * std::min(disk, memory);
}

}  // namespace

std::int64_t SlotBytes(std::int64_t expert) {
  return RoundUp(expert, kReadBlockBytes) + 2 * kReadBlockBytes;
}

std::int64_t HostNeeds::LeastSlots() const { return FewestExpertSlots(experts_per_token); }

std::int64_t HostNeeds::WantedSlots() const {
  const std::int64_t of_step = experts_per_token * (most_drafts + 1) * max_sequences;
  return std::min(n_experts, DivideUp(of_step, expert_ranks) + kInFlightSlots);
}

double HostPlan::share() const {
  return needs.n_experts == 0 ? 1 : std::min(1.0, Number(n_slots) / Number(needs.n_experts));
}

double HostPlan::ReadPerToken() const {
  return fits ? 0 : Number(streamed) + Number(needs.RoutedPerToken()) * (1 - hit_rate);
}

double HostPlan::TouchedPerToken() const {
  return Number(needs.dense + needs.head + needs.RoutedPerToken());
}

double HostPlan::SecondsPerToken(const HostSpeeds& speeds) const {
  return Overlapped(ReadPerToken() / speeds.disk, TouchedPerToken() / speeds.memory);
}

double HostPlan::ExpertTime(const HostSpeeds& speeds) const {
  const double missed = fits ? 0 : 1 - hit_rate;
  return Overlapped(missed / speeds.disk, 1 / speeds.memory) * speeds.memory;
}

double ExpectedHitRate(double share, double useless) {
  const CurvePoint& first = kCurve.front();
  if (share < first.share) {
    if (share <= useless || useless >= first.share || useless <= 0) return 0;
    return Interpolate({useless, 0}, first, share);
  }
  for (std::size_t i = 1; i < kCurve.size(); ++i) {
    if (share <= kCurve[i].share) return Interpolate(kCurve[i - 1], kCurve[i], share);
  }
  return 1;
}

std::int64_t DefaultConstraintMemory(std::int64_t usable_bytes) {
  return std::clamp(usable_bytes / 16, std::int64_t{512} << 20, std::int64_t{4} << 30);
}

Result<HostPlan> PlanHostMemory(const HostNeeds& needs, std::int64_t budget, bool streams) {
  HostPlan plan = {.budget = budget, .needs = needs};
  const std::int64_t others = needs.activations + needs.caches;
  const std::int64_t whole =
      others + needs.WeightBytes() + (needs.must_draft ? needs.DraftBytes() : 0);
  if (whole <= budget && !streams) {
    plan.fits = true;
    plan.resident = needs.dense + needs.head;
    plan.n_slots = needs.n_experts;
    plan.hit_rate = 1;
    plan.draft_resident = others + needs.WeightBytes() + needs.DraftBytes() <= budget;
    return plan;
  }
  const std::int64_t least = LeastBytes(needs);
  if (least > budget) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "memory of the host: expected at least {} ({}), found {}; smaller values of "
                     "--kv-memory, --context, --max-sequences or --max-batch-tokens need less",
                     EnoughMegabytes(least), DescribeLeast(plan), InMegabytes(budget));
  }
  Fill(plan, budget - least);
  return plan;
}

std::int64_t PauseTokens(const ModelOptions& sizes, const ModelShard& shard) {
  if (shard.n_stages > 1) return 0;
  const std::int64_t most = sizes.max_sequences * (sizes.with_draft ? 1 + kRollbackTokens : 1);
  return std::min({most, sizes.max_batch_tokens, kDefaultBatchTokens});
}

Result<HostNeeds> ComputeStepNeeds(const ModelConfig& config, const ModelOptions& options,
                                   const DrafterKind* drafter, int n_threads,
                                   const ModelShard& shard) {
  const Result<SequenceCache::AllocationBytes> caches =
      SequenceCache::BytesFor(ShardCache(MakeCacheShape(config, options, drafter), shard));
  if (!caches) {
    return MakeError(caches.error().code,
                     "memory of the host for caches: {}; --memory or --kv-memory has to be larger, "
                     "or --context or --max-sequences smaller",
                     caches.error().message);
  }
  const auto workspace = [&](std::int64_t max_tokens) {
    return WorkspaceBytes(
        config,
        {.max_tokens = max_tokens, .max_logit_rows = options.max_logit_rows, .drafter = drafter});
  };
  const std::int64_t pause_tokens = PauseTokens(options, shard);
  HostNeeds needs = {
      .activations = workspace(options.max_batch_tokens) +
                     CpuScratchBytes(MakeStepLimits(config, options, drafter), n_threads),
      .pauses = pause_tokens > 0 ? workspace(pause_tokens) : 0,
      .caches = caches->Total(),
      .n_layers = shard.end_layer - shard.first_layer,
      .experts_per_token = config.num_experts_per_tok,
      .expert_ranks = shard.n_expert,
      .max_sequences = options.max_sequences,
      .most_drafts = drafter == nullptr ? 0 : drafter->depth(config),
      .step_tokens = options.max_batch_tokens};
  if (shard.is_whole()) return needs;
  needs.activations += RankWorkspaceBytes(
      config, shard,
      {.max_tokens = options.max_batch_tokens, .max_logit_rows = options.max_logit_rows});
  if (shard.n_expert > 1) {
    needs.activations += ExchangedExperts::BytesFor(config, shard, options.max_batch_tokens);
    needs.pauses += ExchangedExperts::PauseBytesFor(config, shard, pause_tokens);
  }
  return needs;
}

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

Result<HostPlan> PlanHost(const ModelConfig& config, const Checkpoint& checkpoint, LoadPlan& plan,
                          int n_threads, std::int64_t budget) {
  NeedsFinder finder(config, checkpoint, {}, n_threads, budget);
  const Result<HostPlans> plans = PlanStepsOfShares(finder, plan, DecideAlone);
  SetDefaultKvMemory(config, checkpoint, WholeModel(config), budget, plan);
  if (!plans) return Unexpected(plans.error());
  return plans->front();
}

}  // namespace fathom
