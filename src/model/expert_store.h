// ExpertStore: the one owner of where the weights of routed experts are: in mapped files, in
// memory, or on their way to or from other ranks.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/safetensors.h"
#include "kernels/backend.h"
#include "model/weights.h"

namespace fathom {

// Weights that products may read until the block ends. Only the experts that were acquired have
// data.
struct ExpertLease {
  ExpertSet experts;
};

// Blocks are numbered as the layers; the draft block follows them. One thread at a time.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  // --- Loading ---
  // Takes the data of the experts that this process does not have out of bound weights.
  virtual void ShardWeights(ModelWeights& /*weights*/) const {}
  // Manages the experts of `weights`, which outlive this object and stay where they are. `mapped`:
  // the files that the weights are read from while steps run; nullptr: they are in memory. `lock`:
  // experts that arrive later are locked in memory.
  virtual Status Bind(ModelWeights& weights, const Checkpoint* mapped, bool lock) = 0;

  // --- A step ---
  // Around the work of each block; a store may read or move weights beside that work. Error: a
  // process that cannot be reached.
  virtual Status BeginBlock(std::int64_t block) = 0;
  virtual Status EndBlock(std::int64_t /*block*/) { return {}; }
  // The experts that ids [t, k] (memory of the backend) names: ids of experts that this process
  // has, or kRemoteExpert. Error kInvalidData: the weights of an expert are invalid; the message
  // names the tensor.
  virtual Result<ExpertLease> Acquire(std::int64_t block, Matrix<const std::int32_t> ids) = 0;
};

}  // namespace fathom
