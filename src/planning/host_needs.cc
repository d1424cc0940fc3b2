#include "planning/host_needs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "checkpoint/block_reader.h"
#include "distributed/rank_workspace.h"
#include "distributed/weight_shard.h"
#include "experts/balance/expert_transfer.h"
#include "experts/exchange/exchanged_experts.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/streaming_options.h"
#include "kernels/cpu/scratch_bytes.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "model/model_limits.h"
#include "model/weight_pieces.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom::planning {
namespace {

constexpr std::int64_t kInFlightSlots = 12;

std::int64_t TotalBytes(std::span<const std::span<const std::byte>> pieces) {
  std::int64_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) bytes += std::ssize(piece);
  return bytes;
}

HostNeeds MeasureWeights(const Checkpoint& checkpoint, const ModelWeights& weights) {
  HostNeeds sizes;
  const bool has_head = weights.head.data != nullptr;  // the last stage
  sizes.head = has_head ? std::ssize(weights.head.Bytes()) : 0;
  sizes.dense = TotalBytes(WeightPieces(weights, WalkedWeights::kDense)) - sizes.head;
  sizes.draft = TotalBytes(WeightPieces(weights, WalkedWeights::kDraft));
  std::vector<std::span<const ExpertWeights>> blocks;
  const auto add = [&](std::span<const BlockWeights> added, std::int64_t& n_experts) {
    for (const BlockWeights& block : added) {
      blocks.emplace_back(block.ffn.experts);
      for (const ExpertWeights& expert : block.ffn.experts) {
        if (expert.w1.data == nullptr) continue;  // another rank has it
        ++n_experts;
        sizes.expert = std::max(sizes.expert, TotalBytes(DataPieces(expert)));
      }
    }
  };
  add(weights.layers, sizes.n_experts);
  if (weights.draft) add(weights.draft->blocks, sizes.n_draft_experts);
  // Experts that cannot be streamed are refused later, when a model that streams them is loaded.
  const Result<ExpertFiles> files = ExpertFiles::Create(checkpoint, blocks);
  sizes.slot = files ? files->slot_bytes() : SlotBytes(sizes.expert);
  return sizes;
}

// Adds to the sizes of weights what follows from configuration, options and a shard alone.
// options.kv_memory_bytes must be set.
Result<HostNeeds> AddStepNeeds(HostNeeds needs, const ModelConfig& config,
                               const ModelOptions& options, const DrafterKind* drafter,
                               int n_threads, const ModelShard& shard) {
  const Result<SequenceCache::AllocationBytes> caches =
      SequenceCache::BytesFor(ShardCache(MakeCacheShape(config, options, drafter), shard));
  if (!caches) {
    return MakeError(caches.error().code,
                     "memory of the host for caches: {}; --memory or --kv-memory has to be larger, "
                     "or --context or --max-sequences smaller",
                     caches.error().message);
  }
  needs.n_layers = shard.end_layer - shard.first_layer;
  const auto workspace = [&](std::int64_t max_tokens) {
    return WorkspaceBytes(config, {.max_tokens = max_tokens,
                                   .max_logit_rows = options.max_logit_rows,
                                   .drafter = drafter,
                                   .noted_layers = shard.n_expert > 1 ? needs.n_layers : 0});
  };
  const std::int64_t pause_tokens = PauseTokens(options, shard);
  needs.activations = workspace(options.max_batch_tokens) +
                      CpuScratchBytes(MakeStepLimits(config, options, drafter), n_threads);
  needs.pauses = pause_tokens > 0 ? workspace(pause_tokens) : 0;
  needs.caches = caches->Total();
  needs.kv_memory = options.kv_memory_bytes;
  needs.experts_per_token = config.num_experts_per_tok;
  needs.expert_ranks = shard.n_expert;
  needs.stage = shard.stage;
  needs.max_sequences = options.max_sequences;
  needs.most_drafts = drafter == nullptr ? 0 : drafter->depth(config);
  needs.step_tokens = options.max_batch_tokens;
  if (shard.is_whole()) return needs;
  needs.activations += RankWorkspaceBytes(
      config, shard,
      {.max_tokens = options.max_batch_tokens, .max_logit_rows = options.max_logit_rows});
  if (shard.n_expert > 1) {
    needs.activations += ExchangedExperts::BytesFor(config, shard, options.max_batch_tokens);
  }
  return needs;
}

}  // namespace

std::int64_t HostNeeds::LeastSlots() const { return FewestExpertSlots(experts_per_token); }

std::int64_t HostNeeds::WantedSlots() const {
  const std::int64_t of_step = experts_per_token * (most_drafts + 1) * max_sequences;
  return std::min(n_experts, DivideUp(of_step, expert_ranks) + kInFlightSlots);
}

std::int64_t SlotBytes(std::int64_t expert) {
  return RoundUp(expert, kReadBlockBytes) + 2 * kReadBlockBytes;
}

std::int64_t PauseTokens(const ModelOptions& sizes, const ModelShard& shard) {
  if (shard.n_stages > 1) return 0;
  const std::int64_t most = sizes.max_sequences * (sizes.with_draft ? 1 + kRollbackTokens : 1);
  return std::min({most, sizes.max_batch_tokens, kDefaultBatchTokens});
}

NeedsFinder::NeedsFinder(const ModelConfig& config, const Checkpoint& checkpoint,
                         std::vector<HostShare> shares, int n_threads, std::int64_t budget)
    : config_(config),
      checkpoint_(&checkpoint),
      shares_(std::move(shares)),
      n_threads_(n_threads),
      budget_(budget),
      weights_(shares_.size()) {}

NeedsFinder::NeedsFinder(const ModelConfig& config, const DrafterKind* drafter,
                         const HostNeeds& weights, int n_threads, std::int64_t budget)
    : config_(config),
      checkpoint_(nullptr),
      shares_({{.shard = WholeModel(config)}}),
      n_threads_(n_threads),
      budget_(budget),
      weights_(1) {
  weights_[0][drafter == nullptr ? 0 : 1] = {
      .config = config, .drafter = drafter, .sizes = weights};
}

Result<NeedsFinder::Weights> NeedsFinder::Bind(const HostShare& share, bool with_draft) {
  ++n_bound_;
  Weights found = {.config = config_, .drafter = nullptr, .sizes = {}};
  if (with_draft) found.drafter = FindDrafter(*checkpoint_, found.config);
  Result<ModelWeights> weights = BindWeights(*checkpoint_, found.config, found.drafter);
  if (!weights) return Unexpected(weights.error());
  if (!share.shard.is_whole()) {
    DropOtherExperts(MakeReplicaMaps(share.placement, NumBlocks(found.config),
                                     CountExperts(found.config, share.shard)),
                     share.shard.expert_rank, *weights);
    ShardSizes(*weights, found.config, share.shard);
  }
  found.sizes = MeasureWeights(*checkpoint_, *weights);
  return found;
}

Result<HostNeeds> NeedsFinder::Find(std::size_t share, LoadPlan plan) {
  std::optional<Weights>& weights = weights_[share][plan.sizes.with_draft ? 1 : 0];
  if (!weights) {
    Check(checkpoint_ != nullptr, "a plan with the drafter of the known weights");
    Result<Weights> bound = Bind(shares_[share], plan.sizes.with_draft);
    if (!bound) return Unexpected(bound.error());
    weights = *std::move(bound);
  }
  const ModelShard& shard = shares_[share].shard;
  SetDefaultKvMemory(weights->config, weights->drafter, shard, budget_, plan);
  Result<HostNeeds> needs = AddStepNeeds(weights->sizes, weights->config, plan.sizes,
                                         weights->drafter, n_threads_, shard);
  if (needs) needs->must_draft = weights->drafter != nullptr && !plan.drafts_are_optional;
  return needs;
}

}  // namespace fathom::planning
