// ModelSizes: the weights and caches of a model on the ranks that share it, computed from its
// configuration; exact to the byte if the files exist.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "measure/bench/costs.h"
#include "measure/plan/parallel_layout.h"
#include "model/draft/drafters.h"
#include "model/memory_plan.h"
#include "planning/host_needs.h"

namespace fathom::measure::plan {

// Immutable; any thread.
class ModelSizes {
 public:
  // Uses a configuration alone: with its formats, and the draft head if it has one.
  ModelSizes(std::string name, const ModelConfig& config);
  // Reads a checkpoint, or a directory that has only its config.json. Errors: errors of reading
  // these files.
  static Result<ModelSizes> Read(const std::filesystem::path& directory);

  const std::string& name() const { return name_; }
  const ModelConfig& config() const { return config_; }
  const bench::ModelCosts& costs() const { return costs_; }
  const bench::StoredFormats& formats() const { return formats_; }
  const StageWeights& stage_weights() const { return stage_weights_; }
  // Returns the drafter of the draft head; nullptr: no head that the model can draft with.
  const DrafterKind* drafter() const { return drafter_; }
  // Returns the bytes of all weights.
  std::int64_t bytes() const;

  ModelShard StageShard(const ParallelLayout& layout, int stage) const;
  // Returns dense weights and operations of one of n_tensor ranks (the first, which has at least as
  // much as any other), for a layer and outside the layers.
  bench::Costs DenseOfRank(const bench::LayerCosts& layer, int n_tensor) const;
  bench::Costs OutsideOfRank(const ParallelLayout& layout) const;
  // Returns the weights of the first rank of a stage. n_redundant: replicas of experts beyond the
  // experts of the model.
  std::int64_t WeightsOfRank(const ParallelLayout& layout, int stage,
                             std::int64_t n_redundant) const;

  // Returns the needs of the first rank of a stage, weights only: the embedding stays on the host.
  MemoryNeeds NeedsOfRank(const ParallelLayout& layout, int stage, std::int64_t n_redundant) const;

  // Returns the weights of the whole model on a host, drafter included.
  HostNeeds HostWeights() const;

  // Returns the bytes of a rank's caches for n sequences of n positions.
  std::int64_t CacheBytes(const ModelShard& share, std::int64_t n_sequences,
                          std::int64_t context) const;
  // Returns the cached bytes per further token, over all layers.
  double CacheBytesPerToken() const;
  // Returns the bytes of activations for steps of this many tokens and rows of logits.
  std::int64_t WorkspaceOfRank(const ParallelLayout& layout, std::int64_t n_tokens,
                               std::int64_t n_logit_rows) const;

 private:
  ModelSizes(std::string name, const ModelConfig& config, const bench::StoredFormats& formats,
             const DrafterKind* drafter);
  void WeighByFormulas();
  // Returns the bytes of a block with n_experts on one of n_tensor ranks.
  double BlockBytes(const bench::LayerCosts& block, int n_tensor, std::int64_t n_experts) const;
  std::int64_t ExpertsOfRank(const ParallelLayout& layout, std::int64_t n_redundant) const {
    return (config_.n_routed_experts + n_redundant) / layout.n_expert();
  }
  bool HasDraft(const ModelShard& share) const { return draft_ && share.is_last_stage(); }
  // A drafter embeds, too.
  bool HasEmbedding(const ModelShard& share) const {
    return share.is_first_stage() || HasDraft(share);
  }

  std::string name_;
  ModelConfig config_;
  bench::StoredFormats formats_;
  bench::ModelCosts costs_;
  const DrafterKind* drafter_ = nullptr;
  std::optional<bench::DraftCosts> draft_;  // costs of drafter_
  StageWeights stage_weights_;
};

}  // namespace fathom::measure::plan
