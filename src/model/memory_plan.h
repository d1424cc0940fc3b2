// MemoryPlan: which routed experts of a model lie in the memory of a device. One formula, for
// loading and for predictions: from what is free, take what everything else needs; the rest is for
// experts,
//
//   n = floor((free - kept - dense - draft - activations - caches - staging) / expert),
//
// the same number of each block, those of the lowest ids. Device or host is never chosen by the
// size of a batch, and the bits do not depend on it (docs/numerics.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "kv_cache/layout.h"
#include "model/host_expert_choice.h"
#include "model/weights.h"

namespace fathom {

struct ModelOptions;

// The share of experts on the host up to which a device reads them faster than the host computes
// them.
inline constexpr double kMostSharedExperts = 0.15;

// The device memory that a model needs, in bytes, rounded as allocations are.
struct MemoryNeeds {
  std::int64_t dense = 0;             // weights but the drafter's, the embedding, routed experts
  std::int64_t draft = 0;             // such weights of the drafter
  std::int64_t activations = 0;       // of the model and of the operations
  std::int64_t caches = 0;            // of sequences
  std::int64_t staging = 0;           // what is uploaded with a step, and tables
  std::int64_t expert = 0;            // the largest routed expert
  std::vector<std::int64_t> experts;  // of this process, in each block; draft blocks follow layers

  std::int64_t WithoutExperts() const { return dense + draft + activations + caches + staging; }
};

struct MemoryPlan {
  std::int64_t free = 0;  // memory of the device before anything is loaded
  std::int64_t kept = 0;  // of it, for the driver
  MemoryNeeds needs;
  ExpertPlaces places;

  std::int64_t n_experts() const;
  std::int64_t n_on_device() const;
  // The bytes of the other experts.
  std::int64_t host_bytes() const { return (n_experts() - n_on_device()) * needs.expert; }
};

// The needs of bound weights, narrowed to this process's shard, with caches of this shape and steps
// of these options. rank_bytes: memory for the exchanges of ranks. Weights that the backend reads
// in place need nothing.
Result<MemoryNeeds> ComputeMemoryNeeds(const ModelWeights& weights, const ModelConfig& config,
                                       const ModelOptions& options, const DrafterKind* drafter,
                                       const CacheShape& caches, std::int64_t rank_bytes,
                                       bool reads_weights_in_place = false);

// Plans for so many free bytes. Error: kOutOfMemory: not enough without any expert; the message
// names the parts and the options to change.
Result<MemoryPlan> PlanMemory(MemoryNeeds needs, std::int64_t free, HostExpertChoice choice);

// Returns one line: "0.042 GB free on the device: 0.008 GB dense weights, ...; 19 of 56 experts
// there (2 to 3 of each layer), the CPU computes the other 37 (0.004 GB)".
std::string Describe(const MemoryPlan& plan);

}  // namespace fathom
