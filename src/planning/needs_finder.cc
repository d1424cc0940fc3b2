#include "planning/needs_finder.h"

#include <algorithm>
#include <utility>

#include "distributed/weight_shard.h"
#include "experts/balance/expert_transfer.h"
#include "experts/store/other_experts.h"
#include "experts/streaming/expert_files.h"
#include "model/draft/drafters.h"
#include "model/weight_pieces.h"
#include "model/weights.h"

namespace fathom {
namespace {

std::int64_t TotalBytes(const MemoryPieces& pieces) {
  std::int64_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) bytes += std::ssize(piece);
  return bytes;
}

void AddExperts(const BlockWeights& block, std::int64_t& n_experts, HostNeeds& needs) {
  for (const ExpertWeights& expert : block.ffn.experts) {
    if (expert.w1.data == nullptr) continue;  // another rank has it
    ++n_experts;
    std::int64_t bytes = 0;
    for (const std::span<const std::byte> piece : DataPieces(expert)) bytes += std::ssize(piece);
    needs.expert = std::max(needs.expert, bytes);
  }
}

// Returns the memory of a slot, from the places of the experts in the files. Experts that cannot be
// streamed are refused later, when a model that streams them is loaded.
std::int64_t FindSlotBytes(const Checkpoint& checkpoint, const ModelWeights& weights,
                           std::int64_t expert) {
  std::vector<std::span<const ExpertWeights>> blocks;
  for (const BlockWeights& block : weights.layers) blocks.emplace_back(block.ffn.experts);
  if (weights.draft) {
    for (const BlockWeights& block : weights.draft->blocks) blocks.emplace_back(block.ffn.experts);
  }
  const Result<ExpertFiles> files = ExpertFiles::Create(checkpoint, blocks);
  return files ? files->slot_bytes() : SlotBytes(expert);
}

HostNeeds MeasureSizes(const Checkpoint& checkpoint, const ModelWeights& weights) {
  HostNeeds sizes;
  const bool has_head = weights.head.data != nullptr;  // the last stage
  sizes.head = has_head ? std::ssize(weights.head.Bytes()) : 0;
  sizes.dense = TotalBytes(WeightPieces(weights, WalkedWeights::kDense)) - sizes.head;
  sizes.draft = TotalBytes(WeightPieces(weights, WalkedWeights::kDraft));
  for (const BlockWeights& block : weights.layers) AddExperts(block, sizes.n_experts, sizes);
  if (weights.draft) {
    for (const BlockWeights& block : weights.draft->blocks) {
      AddExperts(block, sizes.n_draft_experts, sizes);
    }
  }
  sizes.slot = FindSlotBytes(checkpoint, weights, sizes.expert);
  return sizes;
}

}  // namespace

NeedsFinder::NeedsFinder(const ModelConfig& config, const Checkpoint& checkpoint,
                         std::span<const HostShare> shares, int n_threads, std::int64_t budget)
    : config_(config),
      checkpoint_(checkpoint),
      shares_(shares),
      n_threads_(n_threads),
      budget_(budget),
      weights_(std::max<std::size_t>(shares.size(), 1)) {}

Result<NeedsFinder::Weights> NeedsFinder::Bind(std::size_t share, bool with_draft) {
  ++n_bound_;
  Weights found = {.config = config_, .drafter = nullptr, .sizes = {}};
  if (with_draft) found.drafter = FindDrafter(checkpoint_, found.config);
  Result<ModelWeights> weights = BindWeights(checkpoint_, found.config, found.drafter);
  if (!weights) return Unexpected(weights.error());
  if (!shares_.empty()) {
    const ModelShard& shard = shares_[share].shard;
    const std::vector<ReplicaMap> maps = MakeReplicaMaps(
        shares_[share].placement, NumBlocks(found.config), CountExperts(found.config, shard));
    DropOtherExperts(maps, shard.expert_rank, *weights);
    ShardSizes(*weights, found.config, shard);
  }
  found.sizes = MeasureSizes(checkpoint_, *weights);
  return found;
}

Result<HostNeeds> NeedsFinder::Find(std::size_t share, LoadPlan plan) {
  std::optional<Weights>& weights = weights_[share][plan.sizes.with_draft ? 1 : 0];
  if (!weights) {
    Result<Weights> bound = Bind(share, plan.sizes.with_draft);
    if (!bound) return Unexpected(bound.error());
    weights = *std::move(bound);
  }
  const ModelShard shard = MakeShard(share);
  SetDefaultKvMemory(config_, checkpoint_, shard, budget_, plan);
  Result<HostNeeds> needs =
      ComputeStepNeeds(weights->config, plan.sizes, weights->drafter, n_threads_, shard);
  if (!needs) return needs;
  const HostNeeds& sizes = weights->sizes;
  needs->dense = sizes.dense;
  needs->head = sizes.head;
  needs->draft = sizes.draft;
  needs->expert = sizes.expert;
  needs->slot = sizes.slot;
  needs->n_experts = sizes.n_experts;
  needs->n_draft_experts = sizes.n_draft_experts;
  needs->must_draft = weights->drafter != nullptr && !plan.drafts_are_optional;
  return needs;
}

}  // namespace fathom
