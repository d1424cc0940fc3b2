// HostPlan: decides which part of a model stays in the memory of a host, and predicts its decoding
// speed when all other weights are streamed from disk. One formula, for loading and for predictions
// (docs/spec/streaming.md 1).
//
// Memory is distributed in this order: activations, caches, the least pool of experts; the dense
// weights; the head; further experts; the drafter. A byte of the dense weights saves reading a byte
// per token; a byte of an expert saves this with the probability that the expert is chosen. The
// embedding stays mapped: a token reads one row.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "model/model.h"
#include "planning/load_plan.h"
#include "planning/options.h"

namespace fathom {

struct DrafterKind;
class NeedsFinder;

// The memory that a model needs, in bytes.
struct HostNeeds {
  std::int64_t activations = 0;  // bytes of the model and of the operations, for one step
  std::int64_t pauses = 0;       // additional bytes if experts are streamed: PauseTokens
  std::int64_t caches = 0;
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
  std::int64_t max_sequences = 1;
  std::int64_t most_drafts = 0;  // per sequence and step
  std::int64_t step_tokens = 0;  // the most tokens of one step
  bool must_draft = false;       // the drafter counts as dense weights

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

struct HostPlan {
  std::int64_t budget = 0;
  HostNeeds needs;
  // All weights fit: they are mapped, and nothing is streamed. No other field is valid then.
  bool fits = false;
  std::int64_t resident = 0;  // bytes of dense weights and head in memory
  std::int64_t streamed = 0;  // other bytes of dense weights and head, read for each step
  std::int64_t n_slots = 0;   // experts in memory
  bool draft_resident = false;
  double hit_rate = 0;  // share of the experts chosen by tokens that are in memory

  double share() const;  // share of the experts in memory
  std::int64_t activations() const { return needs.activations + (fits ? 0 : needs.pauses); }
  // Return the bytes that a token reads from disk, and from memory.
  double ReadPerToken() const;
  double TouchedPerToken() const;
  // Returns the seconds of a token of one sequence: reading from disk and from memory, where the
  // shorter time overlaps by 30 %.
  double SecondsPerToken(const HostSpeeds& speeds) const;
  // Returns how many times as long a byte of a chosen expert takes as a byte in memory, by the same
  // rule; 1 if all experts are in memory.
  double ExpertTime(const HostSpeeds& speeds) const;
};

// Returns the expected share of chosen experts that are in a pool with this share of all experts:
// measured points of an ideal choice on V4-Flash, interpolated over the logarithm of the share. A
// pool with the share `useless`, the slots that a step itself needs, has no hits.
double ExpectedHitRate(double share, double useless);

// Returns the default memory of constraints (constraint/constraint_memory.h): a sixteenth of the
// usable bytes, at least 512 MiB and at most 4 GiB.
std::int64_t DefaultConstraintMemory(std::int64_t usable_bytes);

// Plans for `budget` bytes. streams: use a pool of experts even if all of them fit, because other
// ranks have a pool. Error kOutOfMemory: the budget is below activations, caches and the least
// pool; the message says how many bytes are enough and for what.
Result<HostPlan> PlanHostMemory(const HostNeeds& needs, std::int64_t budget, bool streams = false);

// Returns the rows of steps that run while a step of prompts pauses between layers
// (ModelOptions::pause_tokens): enough for every sequence with its drafts, within the default of a
// step. 0: the shard has only a part of the layers, and does not pause.
std::int64_t PauseTokens(const ModelOptions& sizes, const ModelShard& shard);

// Returns the needs that follow from configuration, options and a shard alone: all but the sizes of
// weights. plan.sizes.kv_memory_bytes must be set. Errors: see Model::Load about caches.
Result<HostNeeds> ComputeStepNeeds(const ModelConfig& config, const ModelOptions& options,
                                   const DrafterKind* drafter, int n_threads,
                                   const ModelShard& shard);

// Returns whether all processes that plan together say yes; each of them gets the same result.
// Errors: one of them is gone.
using AgreeOnAllRanks = std::function<Result<bool>(bool yes)>;
// The function for a process that plans alone.
inline Result<bool> DecideAlone(bool yes) { return yes; }

using HostPlans = std::vector<HostPlan>;

// Returns plan(step_tokens). If one of these plans streams experts, returns the plans of longer
// steps, because each expert is read once per step. They have as many tokens, up to `most`, as fit
// with their activations in a small part of each budget (docs/spec/streaming.md 2.5). Errors: see
// `plan` and `ask`.
Result<HostPlans> PlanLongSteps(
    std::int64_t step_tokens, std::int64_t most,
    const std::function<Result<HostPlans>(std::int64_t step_tokens)>& plan,
    const AgreeOnAllRanks& ask = DecideAlone);

// Plans steps for each share of the finder. Makes steps longer that may grow, in `plan` too.
// Errors: see NeedsFinder, PlanHostMemory and `ask`.
Result<HostPlans> PlanStepsOfShares(NeedsFinder& finder, LoadPlan& plan,
                                    const AgreeOnAllRanks& ask);

// Plans as loading the model with these options would. `plan` comes from MakeLoadPlan;
// kDefaultKvMemory becomes the default for this budget, and steps that may grow become longer.
// Reads no weights. Errors: see BindWeights and PlanHostMemory.
Result<HostPlan> PlanHost(const ModelConfig& config, const Checkpoint& checkpoint, LoadPlan& plan,
                          int n_threads, std::int64_t budget);

}  // namespace fathom
