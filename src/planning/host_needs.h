// HostNeeds: the memory that a model needs on a host. NeedsFinder finds it for shares of a
// checkpoint, in plans with steps of several lengths, with and without the drafter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "model/model.h"
#include "planning/load_plan.h"

namespace fathom::planning {

// The memory that a model, or the share of a rank, needs; in bytes.
struct HostNeeds {
  std::int64_t activations = 0;  // bytes of the model and of the operations, for one step
  std::int64_t pauses = 0;       // additional bytes if experts are streamed: PauseTokens
  std::int64_t caches = 0;
  std::int64_t kv_memory = 0;  // ModelOptions::kv_memory_bytes with these caches
  std::int64_t dense = 0;   // all weights but the embedding, the head, routed experts, the drafter
  std::int64_t head = 0;    // the matrix of the logits
  std::int64_t draft = 0;   // dense weights of the drafter
  std::int64_t expert = 0;  // the largest routed expert in the files
  std::int64_t slot = 0;    // the expert's size in the pool

  std::int64_t n_experts = 0;        // experts of all layers
  std::int64_t n_draft_experts = 0;  // experts of the drafter
  std::int64_t n_layers = 0;
  std::int64_t experts_per_token = 0;  // chosen experts in one layer
  std::int64_t expert_ranks = 1;  // ranks that divide a layer's experts; n_experts: of this rank
  std::int64_t stage = 0;         // the stage of the rank
  std::int64_t max_sequences = 1;
  std::int64_t most_drafts = 0;  // per sequence and step
  std::int64_t step_tokens = 0;  // the most tokens of one step
  bool must_draft = false;       // the drafter counts as dense weights

  // Returns the bytes of activations, if experts are streamed or not.
  std::int64_t Activations(bool streams) const { return activations + (streams ? pauses : 0); }
  // Return the bytes of all weights without embedding and drafter; and the bytes of the drafter.
  std::int64_t WeightBytes() const { return dense + head + n_experts * expert; }
  std::int64_t DraftBytes() const { return draft + n_draft_experts * expert; }
  // Returns the bytes of the routed experts that a token reads; the average if ranks divide them.
  std::int64_t RoutedPerToken() const {
    return n_layers * experts_per_token * expert / expert_ranks;
  }
  // Returns the slots without which no step can run: 24 for Flash and Pro.
  std::int64_t LeastSlots() const;
  // Returns the slots for a step with every sequence and all drafts, and 12 in flight. Further
  // slots only cache.
  std::int64_t WantedSlots() const;
};

// Returns the memory of a slot for an expert with this many bytes in the files, if its weights and
// its scales are one range each: the most that the published files need.
std::int64_t SlotBytes(std::int64_t expert);

// Returns the rows of steps that run while a step of prompts pauses between layers
// (ModelOptions::pause_tokens): enough for every sequence with its drafts, within the default of a
// step. 0: the shard has only a part of the layers, and does not pause.
std::int64_t PauseTokens(const ModelOptions& sizes, const ModelShard& shard);

// The part of a model that a process has.
struct HostShare {
  ModelShard shard;
  BlockPlacements placement{};  // placement of experts; empty: the default
};

// Reads headers only. The sizes of weights do not depend on the steps, so the sizes of a share are
// found once with the drafter, and once without. One thread.
class NeedsFinder {
 public:
  // Each share computes with n_threads threads and has the given bytes. The checkpoint must outlive
  // the finder.
  NeedsFinder(const ModelConfig& config, const Checkpoint& checkpoint,
              std::vector<HostShare> shares, int n_threads, std::int64_t budget);
  // For one share, which is the whole model, without a checkpoint. The configuration includes the
  // fields that the drafter adds (nullptr: none). `weights` has the sizes of the weights; all other
  // fields are ignored.
  NeedsFinder(const ModelConfig& config, const DrafterKind* drafter, const HostNeeds& weights,
              int n_threads, std::int64_t budget);

  std::size_t n_shares() const { return shares_.size(); }
  std::int64_t budget() const { return budget_; }
  // Returns the needs of a share in a plan, in which kDefaultKvMemory becomes the default for the
  // budget. Errors: see BindWeights, and Model::Load about caches.
  Result<HostNeeds> Find(std::size_t share, LoadPlan plan);
  // Returns how often weights were bound, for tests.
  int n_bound() const { return n_bound_; }

 private:
  // The weights of a share.
  struct Weights {
    ModelConfig config;          // includes the fields that the drafter adds
    const DrafterKind* drafter;  // null: none
    HostNeeds sizes;             // all but the sizes of steps
  };
  Result<Weights> Bind(const HostShare& share, bool with_draft);

  const ModelConfig config_;
  const Checkpoint* const checkpoint_;  // null: the weights are known
  const std::vector<HostShare> shares_;
  const int n_threads_;
  const std::int64_t budget_;
  std::vector<std::array<std::optional<Weights>, 2>> weights_;  // by share; without, with drafter
  int n_bound_ = 0;
};

}  // namespace fathom::planning
