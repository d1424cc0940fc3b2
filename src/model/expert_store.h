// ExpertStore: manages the place of the weights of routed experts: in mapped files, in memory, or
// in transit to or from other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/safetensors.h"
#include "kernels/backend.h"
#include "model/forward_pass.h"
#include "model/streaming_counts.h"
#include "model/weights.h"

namespace fathom::model {

// Weights that products may read: until the next experts are acquired, or the block ends.
struct ExpertLease {
  ExpertSet experts;
  // The requested ids, with kRemoteExpert in place of experts that the lease does not have; no
  // data: the lease has no experts.
  Matrix<std::int32_t> ids;

  bool is_empty() const { return ids.data == nullptr; }
};

// Computes the rows that need the experts of a lease.
using VisitExperts = std::function<void(const ExpertLease&)>;

// Memory of the backend for a guess of the experts of t tokens.
struct GuessBuffers {
  Matrix<Bf16> u;  // [t, d]
  HcMix mix;
  Matrix<float> logits;  // [t, experts]
  Routing routing;       // [t, experts per token]
};

// The place of bound weights.
struct BoundWeights {
  const Checkpoint& checkpoint;
  bool is_mapped = true;  // weights other than routed experts are read from the files during steps
  bool lock = false;      // experts that arrive later are locked in memory
};

// Blocks are numbered like the layers; the draft block follows them. One thread at a time.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  // --- Loading ---
  // Removes the data of the experts that this process does not have from bound weights.
  virtual void ShardWeights(ModelWeights& /*weights*/) const {}
  // True if the store reads routed experts itself: loading leaves them in the files.
  virtual bool ReadsExperts() const { return false; }
  // Manages the experts of `weights`, which must outlive this object and stay where they are.
  virtual Status Bind(ModelWeights& weights, const BoundWeights& bound) = 0;

  // Returns the read counts of a store that reads experts; nullopt: this one does not. Any thread.
  virtual std::optional<StreamingCounts> streaming() const { return {}; }

  // --- A step ---
  // Called before the blocks of a pass run. The pass must stay where it is until the next BeginPass
  // has returned.
  virtual void BeginPass(ForwardPass& /*pass*/) {}
  // Called before and after the work of each block; a store may read or move weights during that
  // work. Other passes may run between two blocks of a pass. Error: a process that cannot be
  // reached.
  virtual Status BeginBlock(ForwardPass& pass, std::int64_t block) = 0;
  virtual Status EndBlock(std::int64_t /*block*/) { return {}; }
  // Requests the experts of ids [t, k] (memory of the backend): ids of experts that this process
  // has, or kRemoteExpert. Returns a lease of the experts in memory; Await, which must follow,
  // leases the others. Error kInvalidData: the weights of an expert are invalid; the message names
  // the tensor.
  virtual Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) = 0;
  // Calls visit for the other experts as they arrive, each once, in any order and grouping. Ends
  // the lease of Acquire. Sequences of a main pass that need experts that cannot be read are added
  // to its failures: no further experts are leased for their rows, whose results are undefined.
  // Errors: as Acquire; kIo: all sequences of the pass have failed; kResourceExhausted: its
  // should_stop has turned true.
  virtual Status Await(const VisitExperts& /*visit*/) { return {}; }
  // Receive guesses of the experts that a later block of this pass will choose. BeginGuess returns
  // buffers of t rows, in which the caller computes the guess; nullopt: the store accepts none.
  // EndGuess must follow, once they are computed.
  virtual std::optional<GuessBuffers> BeginGuess(std::int64_t /*block*/, std::int64_t /*t*/) {
    return {};
  }
  virtual void EndGuess() {}
};

}  // namespace fathom::model
