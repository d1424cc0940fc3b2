// ExpertLayer: the routed and shared experts of a block for some tokens (docs/spec/model.md 7).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "kernels/backend.h"
#include "model/expert_store.h"
#include "model/forward_pass.h"

namespace fathom::model {

// The work of one block's experts, for t tokens of this process.
struct ExpertInput {
  std::int64_t block = 0;
  Matrix<const Bf16> x;                     // [t, d]
  Routing routing;                          // [t, k]
  std::span<const std::int32_t> positions;  // [t]
  std::function<Status()> shared;           // writes the shared expert's output into y
  Matrix<Bf16> rows;                        // [t * k, d]: scratch
  Matrix<Bf16> y;                           // [t, d]: the result
};

// With several ranks, all call the same functions in the same order. One thread at a time.
class ExpertLayer {
 public:
  virtual ~ExpertLayer() = default;
  // Runs the experts of a block of the pass. Errors: as the store and `shared`; a process that
  // cannot be reached.
  virtual Status Run(ForwardPass& pass, const ExpertInput& input) = 0;
  // After the blocks of a main pass: adds to pass.failed the sequences that need experts that
  // another process cannot read, so that it is the same in all processes. Errors: a process that
  // cannot be reached; kIo: an expert that cannot be read, where the other sequences cannot
  // continue.
  virtual Status ShareFailures(ForwardPass& pass) = 0;
  // Returns the memory that this object has allocated.
  virtual std::int64_t bytes() const { return 0; }
};

// Computes rows [t * k, d]: the outputs of the experts in the routing (Backend::ExpertRows).
// `meanwhile` runs while missing experts are read.
Status RunExperts(Backend& backend, ExpertStore& store, std::int64_t block, Matrix<const Bf16> x,
                  const Routing& routing, float swiglu_limit, Matrix<Bf16> rows,
                  const std::function<Status()>& meanwhile);

// Computes all experts in this process. Backend and store must outlive this object.
class LocalExperts : public ExpertLayer {
 public:
  // is_alone: no other process computes a part of the same sequences, so that single sequences may
  // fail.
  LocalExperts(Backend& backend, ExpertStore& store, float swiglu_limit, bool is_alone = true)
      : backend_(backend), store_(store), swiglu_limit_(swiglu_limit), is_alone_(is_alone) {}
  Status Run(ForwardPass& pass, const ExpertInput& input) override;
  Status ShareFailures(ForwardPass& pass) override;

 private:
  Backend& backend_;
  ExpertStore& store_;
  float swiglu_limit_;
  bool is_alone_;
};

}  // namespace fathom::model
