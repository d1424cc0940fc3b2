// ModelState: the state that the forward passes of a model and of its drafter share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "kernels/backend.h"
#include "kv_cache/sequence_cache.h"
#include "model/block.h"
#include "model/forward_pass.h"
#include "model/memory_plan.h"
#include "model/model.h"
#include "model/rope_tables.h"
#include "model/token_choices.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom::model {

struct DrafterKind;

// The final operations of a pass, from streams to logits.
struct HeadWeights {
  const HcWeights& hc;
  std::span<const Bf16> norm;
  Matrix<Bf16> hidden{};  // receives the local rows before the norm; empty: not stored
};

// Must not be moved once it is bound to the store. One thread at a time.
struct ModelState {
  Backend& backend;
  ModelOptions options;
  ModelConfig config;
  Checkpoint checkpoint;  // without files when all weights have moved to memory
  ModelParts parts;
  const DrafterKind* drafter_kind = nullptr;  // null: loaded without a drafter
  std::vector<std::string> warnings;
  ModelWeights weights;
  std::optional<MemoryPlan> memory_plan;  // for a device with memory of its own
  std::optional<SequenceCache> cache;
  std::optional<TokenChoices> tokens;
  std::optional<RopeTables> rope;
  RoutingObserver routing_observer;
  LayerObserver layer_observer;
  ForwardPass long_pass{Pass::kMain};
  ForwardPass short_pass{Pass::kMain};  // for ModelOptions::pause_tokens, while the other is paused
  ForwardPass draft{Pass::kDraft};
  ForwardPass* main = &long_pass;  // the main pass that calls refer to
  std::vector<PieceCopy> copies;   // scratch of Backend::CopyPieces

  // Allocates the caches and passes for loaded weights.
  Status Allocate();
  // Allocates the memory of a main pass.
  Status AllocatePass(ForwardPass& pass, std::int64_t max_tokens);
  // Returns the most tokens of a batch now.
  std::int64_t max_tokens() const { return activations().streams.rows; }
  const Activations& activations() const { return main->workspace->activations(); }
  // Error: a batch that is too large now, or numbers out of range.
  Status CheckBatch(const BatchView& batch) const;
  const Stage& stage() const { return parts.tensor->stage(); }
  // Returns the shape of this process's caches. Error: as TensorParallel::ShardCache.
  Result<CacheShape> ShapeOfCaches() const;
  // Returns the cache of a layer of this stage, or of a draft block.
  LayerCache& BlockCache(std::int64_t block);
  // Makes room for the batch's positions in the caches.
  Status ExtendCache(const BatchView& batch);
  // Following ranks learn from the first rank which blocks are freed.
  void ForgetSequence(std::int32_t sequence) {
    if (!cache->follows()) cache->Release(sequence);
  }
  // Releases the sequences of a step that failed halfway and has overwritten their caches. `rows`:
  // the segments or the positions of the step.
  template <class Rows>
  void ResetSequences(const Rows& rows) {
    for (const auto& row : rows) {
      ForgetSequence(row.sequence);
    }
    main->positions.clear();
    draft.positions.clear();
  }
  // Begins a pass of a checked batch: local rows, trimmed activations, RoPE rows.
  Result<Step> MakeStep(Pass kind, const BatchView& whole);
  // Returns the step of a pass that has begun.
  Step StepOf(ForwardPass& pass);
  // Computes the logits of some rows of a pass, whose streams are `from`: this process's columns.
  Status ComputeLogits(Pass pass, Matrix<const Bf16> from, std::span<const std::int32_t> rows,
                       const HeadWeights& head_weights, Matrix<float> logits);
  // Starts the choice of tokens from some rows of a pass, whose streams are `from`
  // (TokenChoices::Start).
  Status StartTokens(Pass pass, Matrix<const Bf16> from, std::span<const std::int32_t> rows,
                     const HeadWeights& head_weights, DescribeRows describe, int slot);
};

}  // namespace fathom::model
