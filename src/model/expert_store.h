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
#include "model/pass_progress.h"
#include "model/sequence_failure.h"
#include "model/streaming_counts.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"

namespace fathom {

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
  // Called before the blocks of a pass run; `whole` is the batch of all processes.
  virtual void BeginPass(Pass /*pass*/, const BatchView& /*whole*/) {}
  // Called between two blocks of a main pass: other passes run before its next block, or it does
  // not continue.
  virtual void PausePass() {}
  // Called before the next block of the pass that was paused last. If should_stop (may be empty)
  // turns true while experts of the block arrive, Await fails with kResourceExhausted.
  virtual void ResumePass(const ShouldStop& /*should_stop*/) {}
  // Called before and after the work of each block; a store may read or move weights during that
  // work. Error: a process that cannot be reached.
  virtual Status BeginBlock(std::int64_t block) = 0;
  virtual Status EndBlock(std::int64_t /*block*/) { return {}; }
  // Requests the experts of ids [t, k] (memory of the backend): ids of experts that this process
  // has, or kRemoteExpert. Returns a lease of the experts in memory; Await, which must follow,
  // leases the others. Error kInvalidData: the weights of an expert are invalid; the message names
  // the tensor.
  virtual Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) = 0;
  // Calls visit for the other experts as they arrive, each once, in any order and grouping. Ends
  // the lease of Acquire. Errors: as Acquire; kIo: all sequences of the pass have failed.
  virtual Status Await(const VisitExperts& /*visit*/) { return {}; }
  // Receive guesses of the experts that a later block of this pass will choose. BeginGuess returns
  // buffers of t rows, in which the caller computes the guess; nullopt: the store accepts none.
  // EndGuess must follow, once they are computed.
  virtual std::optional<GuessBuffers> BeginGuess(std::int64_t /*block*/, std::int64_t /*t*/) {
    return {};
  }
  virtual void EndGuess() {}
  // Returns the sequences of this pass that need experts that cannot be read. No further experts
  // are leased for their rows, whose results are undefined. Valid until the next pass begins.
  virtual std::span<const SequenceFailure> failures() const { return {}; }
  // Returns the experts of this main pass that could not be read, if the store does not know the
  // tokens that chose them. The rows of these tokens are missing. Valid as long as failures().
  virtual std::span<const ExpertFailure> expert_failures() const { return {}; }
};

}  // namespace fathom
