#include "model/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/gigabytes.h"
#include "kernels/gpu/memory_sizes.h"
#include "kv_cache/sequence_cache.h"
#include "model/model.h"
#include "model/model_limits.h"
#include "model/weight_pieces.h"
#include "model/workspace.h"

namespace fathom::model {
namespace {

// The driver may take 1 / kKeptPart of the free memory later, for modules, stacks and gaps between
// allocations.
constexpr std::int64_t kKeptPart = 64;

// Returns the bytes that imported weights need.
std::int64_t ImportBytes(const ModelWeights& weights, WalkedWeights which) {
  const MemoryPieces pieces = WeightPieces(weights, which);
  return pieces.empty() ? 0 : GpuAllocationBytes(GpuPieceBytes(pieces));
}

void AddExperts(const BlockWeights& block, MemoryNeeds& needs) {
  std::int64_t& n = needs.experts.emplace_back(0);
  for (const ExpertWeights& expert : block.ffn.experts) {
    if (expert.w1.data == nullptr) continue;
    ++n;
    needs.expert = std::max(needs.expert, GpuExpertBytes(expert));
  }
}

// Returns how many of n experts each block gets. Deals them one by one to all blocks that have
// more.
std::vector<std::int64_t> Distribute(std::int64_t n, const std::vector<std::int64_t>& experts) {
  std::vector<std::int64_t> shares(experts.size(), 0);
  for (bool deals = n > 0; deals;) {
    deals = false;
    for (std::size_t i = 0; i < experts.size() && n > 0; ++i) {
      if (shares[i] == experts[i]) continue;
      ++shares[i];
      --n;
      deals = true;
    }
  }
  return shares;
}

// Returns "3.50 GB dense weights, 0.17 GB draft head, ...".
std::string DescribeNeeds(const MemoryPlan& plan) {
  const MemoryNeeds& needs = plan.needs;
  const std::pair<std::int64_t, std::string_view> parts[] = {
      {needs.dense, "dense weights"},     {needs.draft, "draft head"}, {needs.caches, "caches"},
      {needs.activations, "activations"}, {needs.staging, "staging"},  {plan.kept, "driver"}};
  return DescribeParts(parts);
}

// Returns "4", or "4 to 5".
std::string DescribeShares(const MemoryPlan& plan) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (std::size_t i = 0; i < plan.needs.experts.size(); ++i) {
    if (plan.needs.experts[i] == 0) continue;
    least = std::min(least, plan.places.on_device[i]);
    most = std::max(most, plan.places.on_device[i]);
  }
  return least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
}

}  // namespace

std::int64_t MemoryPlan::n_experts() const {
  return std::accumulate(needs.experts.begin(), needs.experts.end(), std::int64_t{0});
}

std::int64_t MemoryPlan::n_on_device() const {
  return std::accumulate(places.on_device.begin(), places.on_device.end(), std::int64_t{0});
}

Result<MemoryNeeds> ComputeMemoryNeeds(const ModelWeights& weights, const ModelConfig& config,
                                       const ModelOptions& options, const DrafterKind* drafter,
                                       const CacheShape& caches, std::int64_t rank_bytes,
                                       bool reads_weights_in_place) {
  const Result<SequenceCache::AllocationBytes> cache_bytes = SequenceCache::BytesFor(caches);
  if (!cache_bytes) return Unexpected(cache_bytes.error());
  MemoryNeeds needs = {
      .dense = ImportBytes(weights, WalkedWeights::kDense),
      .draft = ImportBytes(weights, WalkedWeights::kDraft),
      .activations =
          GpuAllocationBytes(WorkspaceBytes(config, {.max_tokens = options.max_batch_tokens,
                                                     .max_logit_rows = options.max_logit_rows,
                                                     .drafter = drafter,
                                                     .has_device_logits = true})) +
          GpuScratchFor(MakeStepLimits(config, options, drafter)).Total() + rank_bytes,
      .caches = GpuAllocationBytes(cache_bytes->tails) + GpuAllocationBytes(cache_bytes->blocks) +
                GpuAllocationBytes(cache_bytes->tables)};
  for (const BlockWeights& block : weights.layers) AddExperts(block, needs);
  if (weights.draft) {
    for (const BlockWeights& block : weights.draft->blocks) AddExperts(block, needs);
  }
  if (reads_weights_in_place) needs.dense = needs.draft = needs.expert = 0;
  std::vector<std::int64_t> block_experts;
  for (const std::int64_t n : needs.experts) block_experts.push_back(n * needs.expert);
  needs.staging = GpuListBytes(block_experts, config.n_routed_experts) +
                  2 * GpuAllocationBytes(config.qk_rope_head_dim * 2);  // RopeTables
  return needs;
}

Result<MemoryPlan> PlanMemory(MemoryNeeds needs, std::int64_t free, HostExpertChoice choice) {
  MemoryPlan plan = {.free = free, .kept = DivideUp(free, kKeptPart), .needs = std::move(needs)};
  const std::int64_t dense = plan.needs.WithoutExperts();
  if (free - plan.kept < dense) {
    const std::int64_t least = DivideUp(dense * kKeptPart, kKeptPart - 1);
    plan.kept = least - dense;
    return MakeError(ErrorCode::kOutOfMemory,
                     "memory of the device: expected at least {:.3f} GB ({}), found {:.3f} GB "
                     "free; smaller values of --kv-memory, --context, --max-sequences or "
                     "--max-batch-tokens need less",
                     Gigabytes(least), DescribeNeeds(plan), Gigabytes(free));
  }
  const std::int64_t n = plan.n_experts();
  const std::int64_t fitting =
      plan.needs.expert == 0 ? n : std::min(n, (free - plan.kept - dense) / plan.needs.expert);
  plan.places.on_device = Distribute(fitting, plan.needs.experts);
  const std::int64_t on_host = n - plan.n_on_device();
  const bool are_few = static_cast<double>(on_host) <= kMostSharedExperts * static_cast<double>(n);
  plan.places.host_computes = on_host > 0 && (choice == HostExpertChoice::kCpu ||
                                              (choice == HostExpertChoice::kAuto && !are_few));
  return plan;
}

std::string Describe(const MemoryPlan& plan) {
  const std::int64_t n = plan.n_experts();
  const std::int64_t on_device = plan.n_on_device();
  std::string text =
      fmt::format("{:.3f} GB free on the device: {}; ", Gigabytes(plan.free), DescribeNeeds(plan));
  if (n > 0 && plan.needs.expert == 0) {
    return text + "the GPU reads all weights in memory of the host";
  }
  if (on_device == n) return text + fmt::format("all {} experts there", n);
  const std::string others =
      plan.places.host_computes
          ? fmt::format("the CPU computes the other {}", n - on_device)
          : fmt::format("the GPU reads the other {} over the bus", n - on_device);
  return text + fmt::format("{} of {} experts there ({} of each layer), {} ({:.3f} GB)", on_device,
                            n, DescribeShares(plan), others, Gigabytes(plan.host_bytes()));
}

}  // namespace fathom::model
