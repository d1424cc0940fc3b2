#include "runtime/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/pages.h"
#include "base/processors.h"
#include "base/usable_memory.h"
#include "experts/expert_parts.h"
#include "experts/streaming/heat_file.h"
#include "experts/streaming/streamed_experts.h"
#include "kernels/roofline.h"
#include "planning/host_report.h"
#include "runtime/checkpoint_fingerprint.h"

namespace fathom::runtime {
namespace {

// Returns FINGERPRINT.heat, or FINGERPRINT-0-of-2.heat for the first of two ranks.
std::string HeatFileName(const std::string& fingerprint, const ModelRanks* ranks) {
  if (ranks == nullptr) return fingerprint + ".heat";
  return fmt::format("{}-{}-of-{}.heat", fingerprint, ranks->all->rank(), ranks->all->size());
}

// Keeps the counts of expert uses in a file of the folder.
void KeepHeat(const ModelConfig& config, const Checkpoint& checkpoint, const RunOptions& run,
              const ModelRanks* ranks, const RuntimeEvents& events, StreamingOptions& streaming) {
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
  const std::filesystem::path path = run.expert_heat / HeatFileName(*fingerprint, ranks);
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
                   const RunOptions& run, const ModelRanks* ranks, const BlockPlacements& placement,
                   const RuntimeEvents& events, ModelOptions& sizes) {
  StreamingOptions streaming = {.slots = plan.n_slots,
                                .mirror = run.mirror,
                                .guesses = run.expert_guesses,
                                .warn = events.warn};
  KeepHeat(config, checkpoint, run, ranks, events, streaming);
  sizes.parts = StreamedParts(std::move(streaming), ranks, placement);
  if (plan.streamed > 0 || run.weights.Any()) return;
  // Allocated memory is never dropped, but could be swapped; pages of files are only dropped.
  (SwapBytes() == 0 ? sizes.weights.huge_pages : sizes.weights.preload) = true;
}

double MeasureMemorySpeed(const Backend& backend, std::int64_t budget) {
  constexpr std::int64_t kLeast = std::int64_t{128} << 20;
  const std::int64_t uncached = std::max(kLeast, 2 * CacheBytes(AllowedProcessors()));
  const Result<std::unique_ptr<RooflineProbe>> probe =
      backend.MakeRooflineProbe({.buffer_bytes = std::min(uncached, std::max(kLeast, budget / 4))});
  if (!probe) return 0;
  const Result<Roofline> measured = (*probe)->Measure();
  return measured ? measured->read_gb_s * 1e9 : 0;
}

HostSpeeds SpeedsOfRun(double memory_speed, Model& model) {
  HostSpeeds speeds;
  const StreamedExperts* const streamed = StreamedExperts::FindIn(model);
  const double disk = streamed == nullptr ? 0 : streamed->counts().measured_bytes_per_second;
  if (memory_speed > 0) speeds.memory = memory_speed;
  if (disk > 0) speeds.disk = disk;
  speeds.measured = memory_speed > 0 && disk > 0;
  return speeds;
}

Status ReportHostPlan(const HostPlan& plan, const HostSpeeds& speeds, const ModelRanks* ranks,
                      const RuntimeEvents& events) {
  Result<std::vector<RankSpeed>> all = std::vector<RankSpeed>();
  if (ranks != nullptr) all = ranks->all->GatherEach(SpeedOfRank(plan, speeds));
  if (!all) return Unexpected(all.error());
  const std::string rank = ranks == nullptr ? "" : fmt::format("rank {}: ", ranks->all->rank());
  if (plan.fits) {
    events.Info("{}{}", rank, Describe(plan));
    return {};
  }
  events.Warn("{}{}", rank, ranks == nullptr ? Describe(plan, speeds) : Describe(plan));
  if (ranks != nullptr && ranks->all->rank() == 0) events.Warn("{}", DescribeRanks(*all, speeds));
  return {};
}

std::unique_ptr<PoolWatch> WatchPool(const HostPlan& plan, Model& model,
                                     const RuntimeEvents& events) {
  StreamedExperts* const streamed = StreamedExperts::FindIn(model);
  if (streamed == nullptr) return nullptr;
  // A full pool leaves exactly the reserve free: only much less than the reserve is pressure.
  const Result<UsableMemory> found = FindUsableMemory();
  const std::int64_t reserve = found ? found->machine_reserve / 2 : 0;
  return std::make_unique<PoolWatch>(
      MemoryPressure(reserve, "/",
                     [streamed, last = std::size_t{0}]() mutable {
                       const std::size_t prepared = streamed->PreparedBytes();
                       return std::exchange(last, prepared) != prepared;
                     }),
      PoolGovernor(plan.n_slots, plan.needs.LeastSlots(), plan.needs.slot),
      [streamed](std::int64_t slots, bool allows_guesses) {
        streamed->SetSlots(slots);
        streamed->AllowGuesses(allows_guesses);
      },
      events);
}

}  // namespace fathom::runtime
