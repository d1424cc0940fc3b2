#include "measure/plan/host_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"
#include "kv_cache/sequence_cache.h"
#include "measure/bench/costs.h"
#include "measure/plan/hardware.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "planning/host_plan_report.h"

namespace fathom::plan {
namespace {

std::int64_t WholeBytes(double bytes) { return static_cast<std::int64_t>(bytes); }

// Adds the weights by the formulas, which equal the tensors to the byte.
void AddWeights(const ModelSizes& sizes, HostNeeds& needs) {
  const bench::ModelCosts& costs = sizes.costs();
  const bench::Costs& outside = costs.outside();
  const double head = outside[static_cast<std::size_t>(bench::Component::kHead)].bytes;
  double dense = Sum(outside).bytes - head;
  for (const bench::LayerCosts& layer : costs.layers()) {
    dense += Sum(layer.dense).bytes + layer.table_bytes;
  }
  needs.head = WholeBytes(head);
  needs.dense = WholeBytes(dense);
  needs.expert = WholeBytes(costs.layers().front().expert.bytes);
  needs.n_experts = needs.n_layers * sizes.config().n_routed_experts;
  if (sizes.drafter() == nullptr) return;
  const bench::DraftCosts draft = costs.Draft(*sizes.drafter());
  needs.draft =
      WholeBytes(draft.rest.bytes +
                 Number(draft.n_blocks) * (Sum(draft.block.dense).bytes + draft.block.table_bytes));
  needs.n_draft_experts = draft.n_blocks * sizes.config().n_routed_experts;
}

// Returns the seconds of a token with a disk of `disk` bytes per second.
using SecondsByDisk = std::function<double(double disk)>;

SecondsByDisk SecondsWith(const HostPlan& plan, const HostSpeeds& speeds) {
  return [&plan, memory = speeds.memory](double disk) {
    return plan.SecondsPerToken({.disk = disk, .memory = memory});
  };
}

SecondsByDisk SecondsWith(std::span<const RankPlan> ranks, const HostSpeeds& speeds) {
  return [ranks, memory = speeds.memory](double disk) {
    return SecondsOfRanks(SpeedsOfRanks(ranks, {.disk = disk, .memory = memory}));
  };
}

std::string DescribeModel(const ModelSizes& sizes) {
  return fmt::format("model     {}, {:.2f} GB of weights, {:.2f} KB of cache a token\n",
                     sizes.name(), Number(sizes.bytes()) / kGiga, sizes.CacheBytesPerToken() / 1e3);
}

std::string CompareDisks(const SecondsByDisk& seconds) {
  std::string disks = "disk GB/s";
  std::string rates = "tokens/s ";
  for (const double disk : kComparedDisks) {
    disks += fmt::format(" {:>7.3g}", disk);
    rates += fmt::format(" {:>7.2f}", 1 / seconds(disk * kGiga));
  }
  return "\n" + disks + "\n" + rates + "\n";
}

JsonValue DisksToJson(const SecondsByDisk& seconds) {
  JsonValue rates = JsonValue::Array();
  for (const double disk : kComparedDisks) {
    rates.push_back({{"disk_gb_s", disk}, {"tokens_per_s", 1 / seconds(disk * kGiga)}});
  }
  return rates;
}

}  // namespace

Result<HostNeeds> ComputeHostNeeds(const ModelSizes& sizes, const HostWork& work,
                                   std::int64_t budget) {
  const DrafterKind* const drafter = sizes.drafter();
  LoadPlan plan =
      MakeLoadPlan({.max_batch_tokens = work.step_tokens,
                    .max_sequences = work.n_sequences,
                    .prefix_cache = work.prefix_cache},
                   work.context, drafter == nullptr ? 0 : drafter->depth(sizes.config()));
  plan.sizes.kv_memory_bytes = 0;
  const std::int64_t full =
      SequenceCache::FullBytes(MakeCacheShape(sizes.config(), plan.sizes, drafter));
  plan.sizes.kv_memory_bytes = DefaultKvMemory(full, budget, plan.prefix_cache);
  Result<HostNeeds> needs = ComputeStepNeeds(sizes.config(), plan.sizes, drafter, work.n_threads,
                                             WholeModel(sizes.config()));
  if (!needs) return needs;
  AddWeights(sizes, *needs);
  needs->slot = SlotBytes(needs->expert);
  return needs;
}

std::string ToTable(const ModelSizes& sizes, const HostPlan& plan, const HostSpeeds& speeds) {
  std::string text =
      DescribeModel(sizes) + fmt::format("host      {}\n          {}\n", Describe(plan, speeds),
                                         DescribeConstraintMemory(plan));
  return plan.fits ? text : text + CompareDisks(SecondsWith(plan, speeds));
}

std::string ToTable(const ModelSizes& sizes, std::span<const RankPlan> ranks,
                    const HostSpeeds& speeds) {
  std::string text = DescribeModel(sizes);
  std::string_view name = "host";
  for (const std::string& line : DescribeStart(ranks, speeds)) {
    text += fmt::format("{:<10}{}\n", std::exchange(name, ""), line);
  }
  const bool fit = std::ranges::all_of(ranks, [](const RankPlan& rank) { return rank.plan.fits; });
  return fit ? text : text + CompareDisks(SecondsWith(ranks, speeds));
}

std::string ToJson(const ModelSizes& sizes, const HostPlan& plan, const HostSpeeds& speeds) {
  return WriteJson(JsonValue{{"model", sizes.name()},
                             {"model_bytes", sizes.bytes()},
                             {"host", fathom::ToJson(plan, speeds)},
                             {"by_disk", DisksToJson(SecondsWith(plan, speeds))}},
                   2) +
         "\n";
}

std::string ToJson(const ModelSizes& sizes, std::span<const RankPlan> ranks,
                   const HostSpeeds& speeds) {
  const SecondsByDisk seconds = SecondsWith(ranks, speeds);
  return WriteJson(JsonValue{{"model", sizes.name()},
                             {"model_bytes", sizes.bytes()},
                             {"ranks", fathom::ToJson(ranks, speeds)},
                             {"tokens_per_s", 1 / seconds(speeds.disk)},
                             {"by_disk", DisksToJson(seconds)}},
                   2) +
         "\n";
}

}  // namespace fathom::plan
