#include "measure/plan/model_sizes.h"

#include <system_error>
#include <utility>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"
#include "distributed/rank_workspace.h"
#include "kernels/weight_format.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/workspace.h"

namespace fathom::measure::plan {
namespace {

namespace fs = std::filesystem;
using bench::Component;
using bench::Cost;
using bench::Costs;

std::int64_t Whole(double bytes) { return static_cast<std::int64_t>(bytes); }

Cost& Of(Costs& costs, Component component) { return costs[static_cast<std::size_t>(component)]; }

// Returns a share of a cost.
Cost Scaled(const Cost& cost, double share) { return {cost.bytes * share, cost.flops * share}; }

bool HoldsTensors(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(".safetensors") || file.ends_with(".safetensors.index.json")) return true;
  }
  return false;
}

std::string ModelName(const fs::path& directory) {
  std::error_code error;
  const fs::path whole = fs::canonical(directory, error);
  return (error ? directory : whole).filename().string();
}

bench::StoredFormats ReadStoredFormats(const ModelConfig& config) {
  return {.fp4_experts = config.expert_dtype.value_or(ExpertDType::kFp4) == ExpertDType::kFp4};
}

}  // namespace

ModelSizes::ModelSizes(std::string name, const ModelConfig& config,
                       const bench::StoredFormats& formats, const DrafterKind* drafter)
    : name_(std::move(name)),
      config_(config),
      formats_(formats),
      costs_(config, formats),
      drafter_(drafter) {
  if (drafter != nullptr) draft_ = costs_.Draft(*drafter);
  WeighByFormulas();
}

ModelSizes::ModelSizes(std::string name, const ModelConfig& config)
    : ModelSizes(std::move(name), config, ReadStoredFormats(config), AnnouncedDrafter(config)) {}

Result<ModelSizes> ModelSizes::Read(const fs::path& directory) {
  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  if (!config) return Unexpected(config.error());
  if (!HoldsTensors(directory)) return ModelSizes(ModelName(directory), *config);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  const Result<DraftHead> head = AdoptDraftHead(*checkpoint, *config);
  if (!head) return Unexpected(head.error());
  ModelSizes sizes(ModelName(directory), *config, bench::FindStoredFormats(*checkpoint),
                   head->kind);
  sizes.stage_weights_ = WeighStages(*checkpoint, *config);
  return sizes;
}

double ModelSizes::BlockBytes(const bench::LayerCosts& block, int n_tensor,
                              std::int64_t n_experts) const {
  return Sum(DenseOfRank(block, n_tensor)).bytes + block.table_bytes +
         static_cast<double>(n_experts) * block.expert.bytes;
}

// Follows the rules of WeighStages, with formulas instead of tensors.
void ModelSizes::WeighByFormulas() {
  const std::int64_t n_experts = config_.n_routed_experts;
  for (const bench::LayerCosts& layer : costs_.layers()) {
    stage_weights_.layers.push_back(Whole(BlockBytes(layer, 1, n_experts)));
  }
  double last = costs_.embedding_bytes() + Sum(costs_.outside()).bytes;
  if (draft_) {
    last += static_cast<double>(draft_->n_blocks) * BlockBytes(draft_->block, 1, n_experts) +
            draft_->rest.bytes;
  }
  stage_weights_.first = Whole(costs_.embedding_bytes());
  stage_weights_.last = Whole(last);
}

std::int64_t ModelSizes::bytes() const {
  std::int64_t sum = stage_weights_.last;
  for (const std::int64_t layer : stage_weights_.layers) sum += layer;
  return sum;
}

ModelShard ModelSizes::StageShard(const ParallelLayout& layout, int stage) const {
  const RankCounts counts = layout.counts();
  return ShardOfRank(stage * counts.n_tensor * counts.n_data, counts, stage_weights_);
}

Costs ModelSizes::DenseOfRank(const bench::LayerCosts& layer, int n_tensor) const {
  Costs costs = layer.dense;
  const double elsewhere = 1.0 - 1.0 / n_tensor;
  Of(costs, Component::kAttention) += Scaled(layer.by_heads, -elsewhere);
  const int n_parts = RowParallelParts(config_.moe_intermediate_size);
  const auto here = static_cast<double>(DivideParts(n_parts, 0, n_tensor).count) / n_parts;
  Cost& shared = Of(costs, Component::kShared);
  shared = Scaled(shared, n_tensor == 1 ? 1 : here);
  const auto sinks =
      static_cast<double>(sizeof(float)) * static_cast<double>(config_.num_attention_heads);
  Of(costs, Component::kOther).bytes -= sinks * elsewhere;
  return costs;
}

Costs ModelSizes::OutsideOfRank(const ParallelLayout& layout) const {
  Costs costs = costs_.outside();
  Cost& head = Of(costs, Component::kHead);
  head = Scaled(head, 1.0 / layout.stage_ranks());
  return costs;
}

std::int64_t ModelSizes::WeightsOfRank(const ParallelLayout& layout, int stage,
                                       std::int64_t n_redundant) const {
  const ModelShard share = StageShard(layout, stage);
  const std::int64_t n_experts = ExpertsOfRank(layout, n_redundant);
  double bytes = 0;
  for (std::int64_t i = share.first_layer; i < share.end_layer; ++i) {
    bytes += BlockBytes(costs_.layers()[static_cast<std::size_t>(i)], layout.n_tensor, n_experts);
  }
  if (HasDraft(share)) {
    bytes += static_cast<double>(draft_->n_blocks) *
                 BlockBytes(draft_->block, layout.n_tensor, n_experts) +
             draft_->rest.bytes - draft_->by_vocabulary.bytes * (1 - 1.0 / layout.stage_ranks());
  }
  if (HasEmbedding(share)) bytes += costs_.embedding_bytes() / layout.n_tensor;
  if (share.is_last_stage()) bytes += Sum(OutsideOfRank(layout)).bytes;
  return Whole(bytes);
}

MemoryNeeds ModelSizes::NeedsOfRank(const ParallelLayout& layout, int stage,
                                    std::int64_t n_redundant) const {
  const ModelShard share = StageShard(layout, stage);
  const std::int64_t n_experts = ExpertsOfRank(layout, n_redundant);
  const std::int64_t n_blocks =
      share.end_layer - share.first_layer + (HasDraft(share) ? draft_->n_blocks : 0);
  MemoryNeeds needs = {.expert = Whole(costs_.layers().front().expert.bytes)};
  needs.experts.assign(static_cast<std::size_t>(n_blocks), n_experts);
  needs.dense = WeightsOfRank(layout, stage, n_redundant) - n_blocks * n_experts * needs.expert -
                (HasEmbedding(share) ? Whole(costs_.embedding_bytes() / layout.n_tensor) : 0);
  return needs;
}

HostNeeds ModelSizes::HostWeights() const {
  Costs outside = costs_.outside();
  const double head = Of(outside, Component::kHead).bytes;
  double dense = Sum(outside).bytes - head;
  for (const bench::LayerCosts& layer : costs_.layers()) dense += BlockBytes(layer, 1, 0);
  HostNeeds weights = {.dense = Whole(dense),
                       .head = Whole(head),
                       .expert = Whole(costs_.layers().front().expert.bytes),
                       .n_experts = config_.num_hidden_layers * config_.n_routed_experts};
  weights.slot = SlotBytes(weights.expert);
  if (!draft_) return weights;
  weights.draft = Whole(draft_->rest.bytes +
                        static_cast<double>(draft_->n_blocks) * BlockBytes(draft_->block, 1, 0));
  weights.n_draft_experts = draft_->n_blocks * config_.n_routed_experts;
  return weights;
}

std::int64_t ModelSizes::CacheBytes(const ModelShard& share, std::int64_t n_sequences,
                                    std::int64_t context) const {
  const CacheShape whole = MakeCacheShape(
      config_, {.max_sequences = n_sequences * share.n_data, .max_context = context}, drafter_);
  return SequenceCache::FullBytes(ShardCache(whole, share));
}

double ModelSizes::CacheBytesPerToken() const {
  return BytesPerToken(MakeCacheShape(config_, {}, drafter_));
}

std::int64_t ModelSizes::WorkspaceOfRank(const ParallelLayout& layout, std::int64_t n_tokens,
                                         std::int64_t n_logit_rows) const {
  return WorkspaceBytes(
             config_,
             {.max_tokens = n_tokens, .max_logit_rows = n_logit_rows, .drafter = drafter_}) +
         RankWorkspaceBytes(config_, StageShard(layout, 0),
                            {.max_tokens = n_tokens, .max_logit_rows = n_logit_rows});
}

}  // namespace fathom::measure::plan
