// MemoryPlan: decides which routed experts of a model are in the memory of a device. One formula,
// for loading and for predictions: the free memory, less the needs of everything else, is for
// experts,
//
//   n = floor((free - kept - dense - draft - activations - caches - staging) / expert),
//
// the same number from each block, the experts with the lowest ids. The size of a batch never
// changes the choice between device and host, and the bits do not depend on the choice
// (docs/numerics.md).
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

namespace fathom::model {

struct ModelOptions;

// The largest share of experts on the host for which reading them by the device is faster than
// computing them on the host.
inline constexpr double kMostSharedExperts = 0.15;

// The device memory that a model needs, in bytes, rounded as allocations are.
struct MemoryNeeds {
  std::int64_t dense = 0;             // weights except the drafter's, the embedding, routed experts
  std::int64_t draft = 0;             // such weights of the drafter
  std::int64_t activations = 0;       // activations of the model and of the operations
  std::int64_t caches = 0;            // caches of sequences
  std::int64_t staging = 0;           // buffers of the uploads of a step, and tables
  std::int64_t expert = 0;            // the largest routed expert
  std::vector<std::int64_t> experts;  // by block: experts of this process; draft blocks last

  std::int64_t WithoutExperts() const { return dense + draft + activations + caches + staging; }
};

struct MemoryPlan {
  std::int64_t free = 0;  // memory of the device before anything is loaded
  std::int64_t kept = 0;  // part of `free` for the driver
  MemoryNeeds needs;
  ExpertPlaces places;

  std::int64_t n_experts() const;
  std::int64_t n_on_device() const;
  // Returns the bytes of the experts on the host.
  std::int64_t host_bytes() const { return (n_experts() - n_on_device()) * needs.expert; }
};

// Returns the needs of bound weights, narrowed to this process's shard, with caches of this shape
// and steps of these options. rank_bytes: memory for the exchanges of ranks. Weights that the
// backend reads in place need no memory.
Result<MemoryNeeds> ComputeMemoryNeeds(const ModelWeights& weights, const ModelConfig& config,
                                       const ModelOptions& options, const DrafterKind* drafter,
                                       const CacheShape& caches, std::int64_t rank_bytes,
                                       bool reads_weights_in_place = false);

// Plans for `free` bytes. Error: kOutOfMemory: too few even without any expert; the message names
// the parts and the options to change.
Result<MemoryPlan> PlanMemory(MemoryNeeds needs, std::int64_t free, HostExpertChoice choice);

// Returns one line: "0.042 GB free on the device: 0.008 GB dense weights, ...; 19 of 56 experts
// there (2 to 3 of each layer), the CPU computes the other 37 (0.004 GB)".
std::string Describe(const MemoryPlan& plan);

}  // namespace fathom::model
