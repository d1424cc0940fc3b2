#include "planning/run_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gigabytes.h"
#include "base/pages.h"
#include "base/usable_memory.h"
#include "comm/shared_status.h"
#include "model/draft/drafters.h"
#include "planning/host_needs.h"
#include "planning/host_shares.h"

namespace fathom::planning {

std::optional<std::int64_t> FindHostBudget(const RunOptions& run, int n_processes,
                                           const RuntimeEvents& events) {
  const Result<UsableMemory> found = FindUsableMemory();
  if (!found) {
    if (!run.memory) events.Warn("--memory: expected, as {}", found.error().message);
    return run.memory;
  }
  for (const std::string& warning : found->warnings) events.Warn("{}", warning);
  // If this process's own work leaves little memory, the model tries nevertheless.
  const std::int64_t usable =
      std::max(found->usable() - run.memory_beside * n_processes, found->usable() / 2);
  if (run.memory && *run.memory * n_processes > usable) {
    events.Warn(
        "--memory: {:.3f} GB{} are more than the {:.3f} GB that are usable ({}, less {:.3f} GB for "
        "others): the system may swap, or end the program",
        Gigabytes(*run.memory),
        n_processes > 1 ? fmt::format(" for each of {} ranks", n_processes) : "", Gigabytes(usable),
        found->limited_by, Gigabytes(found->room - usable));
  }
  return run.memory.value_or(usable);
}

std::int64_t DefaultConstraintMemory(std::int64_t usable_bytes) {
  return std::clamp(usable_bytes / 16, std::int64_t{512} << 20, std::int64_t{4} << 30);
}

std::int64_t DefaultConstraintMemory() {
  const Result<UsableMemory> found = FindUsableMemory();
  return DefaultConstraintMemory(found ? found->usable() : 0);
}

namespace {

// Returns how many ranks say yes; the result is equal on all ranks.
Result<int> CountYes(Communicator& all, bool yes) {
  const Result<std::vector<std::int8_t>> said = all.GatherEach(static_cast<std::int8_t>(yes));
  if (!said) return Unexpected(said.error());
  return static_cast<int>(std::ranges::count(*said, 1));
}

// Returns whether the ranks have run.memory. Error: only some of them have.
Result<bool> AreLimited(Communicator& all, const RunOptions& run) {
  const Result<int> n_limited = CountYes(all, run.memory.has_value());
  if (!n_limited) return Unexpected(n_limited.error());
  if (*n_limited == 0 || *n_limited == all.size()) return *n_limited > 0;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--memory: expected on all {} ranks or on none, found it on {}", all.size(),
                   *n_limited);
}

PlanningPeers PeersOf(Communicator& all) {
  return {.ask = [&all](bool yes) -> Result<bool> {
            const Result<int> n_yes = CountYes(all, yes);
            if (!n_yes) return Unexpected(n_yes.error());
            return *n_yes == all.size();
          },
          .share = [&all](const Status& mine) { return ShareStatus(all, mine); }};
}

// Checks that streamed experts need not move between the ranks. The error names the option.
Status CheckStreamedRanks(const HostPlan& plan, const RankOptions& options) {
  const std::string_view option = options.eplb_interval > 0 ? "--eplb-interval"
                                  : !options.save_expert_placement.empty()
                                      ? "--save-expert-placement"
                                      : "";
  if (option.empty()) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: expected memory for all experts, since experts that are read from disk do "
                   "not move between ranks; found memory for {} of {} on this rank: use more "
                   "--memory, or --expert-placement alone",
                   option, plan.n_slots, plan.needs.n_experts);
}

// Plans a host that may stream weights. As PlanRun, but leaves the default size of the caches if
// `plan` stays unchanged.
Result<std::optional<HostPlan>> PlanHostRun(const ModelConfig& config, const Checkpoint& checkpoint,
                                            const RunOptions& run, const ModelRanks* ranks,
                                            const BlockPlacements& placement, LoadPlan& plan,
                                            const RuntimeEvents& events) {
  const Result<bool> is_planned = ranks == nullptr ? !run.weights.Any() || run.memory.has_value()
                                                   : AreLimited(*ranks->all, run);
  if (!is_planned) return Unexpected(is_planned.error());
  if (!*is_planned) return std::optional<HostPlan>();
  // The ranks of a launcher are on this machine; MPI's ranks may be on any machine.
  const int n_processes = ranks == nullptr || run.ranks.link.empty() ? 1 : ranks->all->size();
  const std::optional<std::int64_t> budget = FindHostBudget(run, n_processes, events);
  if (!budget) return std::optional<HostPlan>();
  const ModelShard shard = ranks == nullptr ? WholeModel(config) : ranks->shard;
  NeedsFinder finder(config, checkpoint, {{.shard = shard, .placement = placement}}, run.n_threads,
                     *budget);
  LoadPlan planned = plan;
  const Result<HostPlans> plans =
      PlanShares(finder, planned, ranks == nullptr ? PlanningPeers() : PeersOf(*ranks->all));
  if (!plans) return Unexpected(plans.error());
  const HostPlan& host = plans->front();
  const Status possible = host.fits ? Status() : CheckStreamedRanks(host, run.ranks);
  if (!possible) return Unexpected(possible.error());
  if (!host.fits || run.memory) {
    plan = std::move(planned);
    plan.sizes.kv_memory_bytes = host.needs.kv_memory;
    if (!host.fits) plan.sizes.pause_tokens = PauseTokens(plan.sizes, shard);
  }
  return std::optional(host);
}

// Assumes that all ranks are on this machine, each with a device of its own.
std::int64_t MemoryOfRank(const Backend& backend, int n_ranks) {
  if (const std::optional<std::int64_t> device = backend.DeviceMemory()) return *device;
  return AvailableMemory().value_or(std::numeric_limits<std::int64_t>::max()) / n_ranks;
}

}  // namespace

Result<std::optional<HostPlan>> PlanRun(ModelConfig config, const Checkpoint& checkpoint,
                                        const RunOptions& run, const ModelRanks* ranks,
                                        const BlockPlacements& placement, const Backend& backend,
                                        LoadPlan& plan, const RuntimeEvents& events) {
  Result<std::optional<HostPlan>> host = std::optional<HostPlan>();
  if (backend.OnHost() && !backend.DeviceMemory()) {
    host = PlanHostRun(config, checkpoint, run, ranks, placement, plan, events);
    if (!host) return host;
  } else if (run.memory) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--memory: expected processes that compute on the CPU, found --backend {}",
                     run.backend);
  }
  if (plan.sizes.kv_memory_bytes != kDefaultKvMemory) return host;
  const DrafterKind* const drafter =
      plan.sizes.with_draft ? FindDrafter(checkpoint, config) : nullptr;
  SetDefaultKvMemory(config, drafter, ranks == nullptr ? WholeModel(config) : ranks->shard,
                     MemoryOfRank(backend, ranks == nullptr ? 1 : ranks->all->size()), plan);
  return host;
}

}  // namespace fathom::planning
