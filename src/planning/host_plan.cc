#include "planning/host_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/gigabytes.h"

namespace fathom::planning {
namespace {

constexpr double kOverlap = 0.3;  // part of the shorter read time, of disk or memory

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
  const std::int64_t pool = needs.LeastSlots() * needs.slot;
  const std::int64_t least = needs.caches + plan.activations() + pool;
  if (least > budget) {
    const std::string experts = fmt::format("for {} experts", needs.LeastSlots());
    const std::pair<std::int64_t, std::string_view> parts[] = {
        {needs.caches, "caches"}, {plan.activations(), "activations"}, {pool, experts}};
    return MakeError(ErrorCode::kOutOfMemory,
                     "memory of the host: expected at least {} ({}), found {}; smaller values of "
                     "--kv-memory, --context, --max-sequences or --max-batch-tokens need less",
                     EnoughMegabytes(least), DescribeParts(parts), InMegabytes(budget));
  }
  Fill(plan, budget - least);
  return plan;
}

}  // namespace fathom::planning
