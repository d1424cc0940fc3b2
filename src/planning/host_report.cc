#include "planning/host_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/gigabytes.h"
#include "planning/run_plan.h"

namespace fathom::planning {
namespace {

constexpr double kGiga = 1e9;

// Returns the rate with three digits, without an exponent.
std::string RateText(double rate) {
  return rate < 999.5 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

std::vector<RankSpeed> SpeedsOfRanks(std::span<const HostPlan> plans, const HostSpeeds& speeds) {
  std::vector<RankSpeed> all;
  for (const HostPlan& plan : plans) all.push_back(SpeedOfRank(plan, speeds));
  return all;
}

double SecondsOfRanks(std::span<const RankSpeed> ranks) {
  std::map<std::int64_t, double> slowest;  // seconds, by stage
  for (const RankSpeed& rank : ranks) {
    double& seconds = slowest[rank.stage];
    seconds = std::max(seconds, rank.seconds_per_token);
  }
  double seconds = 0;
  for (const auto& [stage, of_stage] : slowest) seconds += of_stage;
  return seconds;
}

}  // namespace

bool HostPrediction::Fits() const { return std::ranges::all_of(plans, &HostPlan::fits); }

double HostPrediction::SecondsPerToken(const HostSpeeds& with) const {
  return SecondsOfRanks(SpeedsOfRanks(plans, with));
}

std::string Describe(const HostPlan& plan) {
  const HostNeeds& needs = plan.needs;
  std::string text = fmt::format("{:.3f} GB of memory: ", Gigabytes(plan.budget));
  const std::pair<std::int64_t, std::string_view> parts[] = {
      {needs.caches, "caches"},
      {plan.activations(), "activations"},
      {plan.fits ? needs.WeightBytes() : plan.resident, plan.fits ? "weights" : "dense weights"}};
  text += DescribeParts(parts);
  if (plan.fits) {
    text += "; all of it fits";
    if (needs.DraftBytes() > 0 && !plan.draft_resident) text += " but for the draft head";
    return text;
  }
  if (plan.streamed > 0) {
    text += fmt::format(", {:.3f} GB of them do not fit", Gigabytes(plan.streamed));
  }
  return text + fmt::format(
                    "; {} of {} experts ({:.1f} %), expected hit rate {:.2f}, {:.3f} GB read per "
                    "token",
                    plan.n_slots, needs.n_experts, 100 * plan.share(), plan.hit_rate,
                    plan.ReadPerToken() / kGiga);
}

std::string Describe(const HostPlan& plan, const HostSpeeds& speeds) {
  const std::string disk = plan.fits ? "" : fmt::format("disk {:.3g} GB/s, ", speeds.disk / kGiga);
  return fmt::format("{}, {}{} tokens/s ({}memory {:.3g} GB/s, {})", Describe(plan),
                     plan.fits ? "at most " : "", RateText(1 / plan.SecondsPerToken(speeds)), disk,
                     speeds.memory / kGiga, speeds.measured ? "measured" : "assumed");
}

RankSpeed SpeedOfRank(const HostPlan& plan, const HostSpeeds& speeds) {
  return {.stage = plan.needs.stage,
          .read_per_token = plan.ReadPerToken(),
          .seconds_per_token = plan.SecondsPerToken(speeds)};
}

std::string DescribeRanks(std::span<const RankSpeed> ranks, const HostSpeeds& speeds) {
  double read = 0;
  for (const RankSpeed& rank : ranks) read += rank.read_per_token;
  const double seconds = SecondsOfRanks(ranks);
  return fmt::format(
      "all {} ranks: {:.3f} GB read per token, {} tokens/s (disk {:.3g} GB/s, memory {:.3g} GB/s "
      "of a rank, {})",
      ranks.size(), read / kGiga, RateText(1 / seconds), speeds.disk / kGiga, speeds.memory / kGiga,
      speeds.measured ? "measured" : "assumed");
}

std::vector<std::string> Describe(const HostPrediction& prediction) {
  const auto& [plans, has_ranks, speeds] = prediction;
  if (!has_ranks) {
    return {Describe(plans.front(), speeds),
            fmt::format("a server takes up to {:.3f} GB more for forms of answers",
                        Gigabytes(DefaultConstraintMemory(plans.front().budget)))};
  }
  std::vector<std::string> lines;
  for (const HostPlan& plan : plans) {
    lines.push_back(fmt::format("rank {}: {}", lines.size(), Describe(plan)));
  }
  lines.push_back(DescribeRanks(SpeedsOfRanks(plans, speeds), speeds));
  return lines;
}

JsonValue ToJson(const HostPlan& plan, const HostSpeeds& speeds) {
  const HostNeeds& needs = plan.needs;
  return {{"memory_bytes", plan.budget},
          {"constraint_memory_bytes", DefaultConstraintMemory(plan.budget)},
          {"fits", plan.fits},
          {"cache_bytes", needs.caches},
          {"activation_bytes", plan.activations()},
          {"step_tokens", needs.step_tokens},
          {"dense_bytes", needs.dense + needs.head},
          {"dense_resident_bytes", plan.resident},
          {"dense_streamed_bytes", plan.streamed},
          {"draft_head_bytes", needs.DraftBytes()},
          {"draft_head_resident", plan.draft_resident},
          {"expert_bytes", needs.expert},
          {"slot_bytes", needs.slot},
          {"experts", needs.n_experts},
          {"slots", plan.n_slots},
          {"hit_rate", plan.hit_rate},
          {"read_bytes_per_token", plan.ReadPerToken()},
          {"disk_bytes_per_s", speeds.disk},
          {"memory_bytes_per_s", speeds.memory},
          {"speeds_measured", speeds.measured},
          {"tokens_per_s", 1 / plan.SecondsPerToken(speeds)}};
}

JsonValue ToJson(const HostPrediction& prediction) {
  const auto& [plans, has_ranks, speeds] = prediction;
  if (!has_ranks) return {{"host", ToJson(plans.front(), speeds)}};
  JsonValue ranks = JsonValue::Array();
  for (const HostPlan& plan : plans) ranks.push_back(ToJson(plan, speeds));
  return {{"ranks", std::move(ranks)}, {"tokens_per_s", 1 / prediction.SecondsPerToken(speeds)}};
}

std::string Describe(const StreamingCounts& counts) {
  const auto over = [](double value, double by) { return by > 0 ? value / by : 0; };
  const auto rate = [&](std::int64_t hits, std::int64_t uses) {
    return over(static_cast<double>(hits), static_cast<double>(uses));
  };
  const auto tokens = static_cast<double>(counts.tokens);
  const double gigabytes = Gigabytes(counts.read_bytes);
  const std::string busy = counts.stall_seconds > 0
                               ? fmt::format(" (the disk busy {:.0f} % of it, {:.2f} GB/s)",
                                             100 * counts.stall_busy_seconds / counts.stall_seconds,
                                             Gigabytes(counts.stall_bytes) / counts.stall_seconds)
                               : "";
  const std::string hash =
      counts.hash_uses > 0
          ? fmt::format(" (hash layers {:.2f})", rate(counts.hash_hits, counts.hash_uses))
          : "";
  const GuessCounts& g = counts.guesses;
  const std::string guesses =
      g.experts > 0 ? fmt::format("; {} experts guessed, {:.0f} % rightly, {} read", g.experts,
                                  100 * rate(g.useful, g.experts), g.reads - g.withdrawn)
                    : "";
  return fmt::format(
      "experts from disk: hit rate {:.2f}{}, {:.3f} GB read per token at {:.2f} GB/s, {:.1f} ms "
      "waited per token{}; pool {} of {} slots, {:.1f} GB{}",
      rate(counts.hits(), counts.uses()), hash, over(gigabytes, tokens),
      over(gigabytes, counts.disk_busy_seconds), over(1e3 * counts.stall_seconds, tokens), busy,
      counts.used_slots, counts.slots, Gigabytes(counts.slots * counts.slot_bytes), guesses);
}

}  // namespace fathom::planning
