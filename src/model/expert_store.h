// ExpertStore: the one owner of where the weights of routed experts are: in mapped files, in
// memory, or on their way to or from other ranks.
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

// Weights that products may read: until the store is asked for others, or the block ends.
struct ExpertLease {
  ExpertSet experts;
  // The ids that were asked for, with kRemoteExpert in place of experts that the lease does not
  // have; no data: it has none.
  Matrix<std::int32_t> ids;

  bool is_empty() const { return ids.data == nullptr; }
};

// Computes what needs the experts of a lease.
using VisitExperts = std::function<void(const ExpertLease&)>;

// Memory of the backend for a guess of the experts of t tokens.
struct GuessBuffers {
  Matrix<Bf16> u;  // [t, d]
  HcMix mix;
  Matrix<float> logits;  // [t, experts]
  Routing routing;       // [t, experts per token]
};

// Where bound weights are.
struct BoundWeights {
  const Checkpoint& checkpoint;
  bool is_mapped = true;  // weights other than routed experts are read from the files in steps
  bool lock = false;      // experts that arrive later are locked in memory
};

// Blocks are numbered as the layers; the draft block follows them. One thread at a time.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  // --- Loading ---
  // Takes the data of the experts that this process does not have out of bound weights.
  virtual void ShardWeights(ModelWeights& /*weights*/) const {}
  // True if the store reads routed experts itself: loading leaves them in the files.
  virtual bool ReadsExperts() const { return false; }
  // Manages the experts of `weights`, which outlive this object and stay where they are.
  virtual Status Bind(ModelWeights& weights, const BoundWeights& bound) = 0;

  // Counts the reads of a store that reads experts; nullopt: this one does not. Any thread.
  virtual std::optional<StreamingCounts> streaming() const { return {}; }

  // --- A step ---
  // Before the blocks of a pass run; `whole` is the batch of all processes.
  virtual void BeginPass(Pass /*pass*/, const BatchView& /*whole*/) {}
  // Between two blocks of a main pass: other passes run before its next block, or it does not go
  // on.
  virtual void PausePass() {}
  // The next block is that of the pass that was paused last. If should_stop (may be empty) turns
  // true while experts of the block arrive, Await fails with kResourceExhausted.
  virtual void ResumePass(const ShouldStop& /*should_stop*/) {}
  // Around the work of each block; a store may read or move weights beside that work. Error: a
  // process that cannot be reached.
  virtual Status BeginBlock(std::int64_t block) = 0;
  virtual Status EndBlock(std::int64_t /*block*/) { return {}; }
  // Asks for the experts that ids [t, k] (memory of the backend) names: ids of experts that this
  // process has, or kRemoteExpert. Returns a lease of those that are there; Await, which must
  // follow, has the others. Error kInvalidData: the weights of an expert are invalid; the message
  // names the tensor.
  virtual Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) = 0;
  // Calls visit for the other experts as they arrive, each once, in any order and division. Ends
  // the lease of Acquire. Errors: as Acquire; kIo: all sequences of the pass have failed.
  virtual Status Await(const VisitExperts& /*visit*/) { return {}; }
  // Guesses of the experts that a later block of this pass will choose. BeginGuess returns buffers
  // of t rows, in which the caller computes the guess; nullopt: the store wants none. EndGuess
  // must follow, once they are computed.
  virtual std::optional<GuessBuffers> BeginGuess(std::int64_t /*block*/, std::int64_t /*t*/) {
    return {};
  }
  virtual void EndGuess() {}
  // Sequences of this pass that need experts that cannot be read. No further experts are leased for
  // their rows, whose results are numbers without meaning. Valid until the next pass begins.
  virtual std::span<const SequenceFailure> failures() const { return {}; }
  // Experts of this main pass that could not be read, with no rows for the tokens that chose them:
  // of a store that does not know those tokens. Valid as failures().
  virtual std::span<const ExpertFailure> expert_failures() const { return {}; }
};

}  // namespace fathom
