#include "runtime/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/gigabytes.h"
#include "base/pages.h"
#include "base/usable_memory.h"
#include "experts/streamed_parts.h"
#include "experts/streaming/heat_file.h"
#include "experts/streaming/streamed_experts.h"
#include "kernels/roofline.h"
#include "runtime/checkpoint_fingerprint.h"
#include "runtime/host_plan_report.h"

namespace fathom {

std::optional<std::int64_t> FindHostBudget(const RunOptions& run, const RuntimeEvents& events) {
  const Result<UsableMemory> found = FindUsableMemory();
  if (!found) {
    if (!run.memory) events.Warn("--memory: expected, as {}", found.error().message);
    return run.memory;
  }
  for (const std::string& warning : found->warnings) events.Warn("{}", warning);
  if (run.memory && *run.memory > found->usable()) {
    events.Warn(
        "--memory: {:.3f} GB are more than the {:.3f} GB that are usable ({}, less {:.3f} GB for "
        "others): the system may swap, or end the program",
        Gigabytes(*run.memory), Gigabytes(found->usable()), found->limited_by,
        Gigabytes(found->reserve));
  }
  return run.memory.value_or(found->usable());
}

namespace {

// Drafts read more experts: they do not pay where reading from disk takes most of the time.
constexpr double kDraftHitRate = 0.9;

// PlanHost, with a drafter that is optional where there is room for it, or where nearly all experts
// that are chosen are in memory beside it (docs/spec/streaming.md 2.6); else `plan` has none.
Result<HostPlan> PlanWithDrafter(const ModelConfig& config, const Checkpoint& checkpoint,
                                 LoadPlan& plan, int n_threads, std::int64_t budget) {
  const auto plan_host = [&](const LoadPlan& wanted) {
    LoadPlan planned = wanted;
    Result<HostPlan> host = PlanHost(config, checkpoint, planned, n_threads, budget);
    return std::pair(std::move(host), std::move(planned));
  };
  auto [host, planned] = plan_host(plan);
  const bool may_leave = plan.sizes.with_draft && plan.drafts_are_optional;
  if (may_leave && !(host && (host->fits || host->draft_resident))) {
    LoadPlan drafting = plan;
    drafting.drafts_are_optional = false;
    std::tie(host, planned) = plan_host(drafting);
    if (!(host && host->draft_resident && host->hit_rate >= kDraftHitRate)) {
      LoadPlan without = plan;
      without.sizes.with_draft = false;
      std::tie(host, planned) = plan_host(without);
    }
  }
  plan = std::move(planned);
  return std::move(host);
}

}  // namespace

Result<std::optional<HostPlan>> PlanHostRun(const ModelConfig& config, const Checkpoint& checkpoint,
                                            const RunOptions& run, bool is_alone,
                                            const Backend& backend, LoadPlan& plan,
                                            const RuntimeEvents& events) {
  if (!is_alone || !backend.OnHost() || backend.DeviceMemory()) {
    if (!run.memory) return std::optional<HostPlan>();
    return MakeError(ErrorCode::kInvalidArgument,
                     "--memory: expected one process that computes on the CPU, found {}",
                     is_alone ? "--backend " + run.backend : "several ranks");
  }
  if (run.weights.Any() && !run.memory) return std::optional<HostPlan>();
  const std::optional<std::int64_t> budget = FindHostBudget(run, events);
  if (!budget) return std::optional<HostPlan>();
  LoadPlan planned = plan;
  const Result<HostPlan> host =
      PlanWithDrafter(config, checkpoint, planned, run.n_threads, *budget);
  if (!host) return Unexpected(host.error());
  if (!host->fits || run.memory) plan = std::move(planned);
  return std::optional(*host);
}

namespace {

// Keeps the uses of experts in FOLDER/FINGERPRINT.heat.
void KeepHeat(const ModelConfig& config, const Checkpoint& checkpoint, const RunOptions& run,
              const RuntimeEvents& events, StreamingOptions& streaming) {
  if (run.expert_heat.empty()) return;
  const Result<std::string> fingerprint = ComputeContentFingerprint(checkpoint);
  std::error_code failed;
  if (fingerprint) std::filesystem::create_directories(run.expert_heat, failed);
  if (!fingerprint || failed) {
    events.Warn("--expert-heat: {}",
                fingerprint ? fmt::format("{}: {}", run.expert_heat.string(), failed.message())
                            : fingerprint.error().message);
    return;
  }
  const std::filesystem::path path = run.expert_heat / (*fingerprint + ".heat");
  const std::int64_t n_experts = config.n_routed_experts;
  Result<std::vector<std::uint32_t>> heat = ReadHeat(path, *fingerprint, n_experts);
  if (heat) {
    streaming.heat = *std::move(heat);
  } else {
    events.Warn("--expert-heat: {}; it is ignored", heat.error().message);
  }
  streaming.save_heat = [path, fingerprint = *fingerprint, n_experts,
                         events](std::span<const std::uint32_t> uses) {
    if (Status written = WriteHeat(path, fingerprint, n_experts, uses); !written) {
      events.Warn("--expert-heat: {}", written.error().message);
    }
  };
}

}  // namespace

void StreamExperts(const HostPlan& plan, const ModelConfig& config, const Checkpoint& checkpoint,
                   const RunOptions& run, const RuntimeEvents& events, ModelOptions& sizes) {
  StreamingOptions streaming = {.slots = plan.n_slots, .mirror = run.mirror, .warn = events.warn};
  KeepHeat(config, checkpoint, run, events, streaming);
  sizes.parts = StreamedParts(std::move(streaming));
  if (plan.streamed > 0 || run.weights.Any()) return;
  // Memory of its own is never dropped, but it could be swapped; pages of files are only dropped.
  (SwapBytes() == 0 ? sizes.weights.huge_pages : sizes.weights.preload) = true;
}

double MeasureMemorySpeed(const Backend& backend) {
  const Result<std::unique_ptr<RooflineProbe>> probe =
      backend.MakeRooflineProbe({.buffer_bytes = std::int64_t{128} << 20});
  if (!probe) return 0;
  const Result<Roofline> measured = (*probe)->Measure();
  return measured ? measured->read_gb_s * 1e9 : 0;
}

HostSpeeds SpeedsOfRun(double memory_speed, Model& model) {
  HostSpeeds speeds;
  const StreamedExperts* const streamed = StreamedExperts::Of(model);
  const double disk = streamed == nullptr ? 0 : streamed->counts().measured_bytes_per_second;
  if (memory_speed > 0) speeds.memory = memory_speed;
  if (disk > 0) speeds.disk = disk;
  speeds.measured = memory_speed > 0 && disk > 0;
  return speeds;
}

void ReportHostPlan(const HostPlan& plan, const HostSpeeds& speeds, const RuntimeEvents& events) {
  if (plan.fits) {
    events.Info("{}", Describe(plan));
  } else {
    events.Warn("{}", Describe(plan, speeds));
  }
}

std::unique_ptr<PoolWatch> WatchPool(const HostPlan& plan, Model& model,
                                     const RuntimeEvents& events) {
  StreamedExperts* const streamed = StreamedExperts::Of(model);
  if (streamed == nullptr) return nullptr;
  // A full pool leaves the reserve and no more: only much less than the reserve is pressure.
  const Result<UsableMemory> found = FindUsableMemory();
  const std::int64_t reserve = found ? found->machine_reserve / 2 : 0;
  return std::make_unique<PoolWatch>(
      MemoryPressure(reserve, "/", [streamed] { return streamed->PreparesMemory(); }),
      PoolGovernor(plan.n_slots, plan.needs.LeastSlots(), plan.needs.slot),
      [streamed](std::int64_t slots) { streamed->SetSlots(slots); }, events);
}

}  // namespace fathom
