// ModelConstraints: compiles constraints for the vocabulary of a model.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/caller.h"
#include "constraint/constraint.h"
#include "planning/run_plan.h"
#include "runtime/compile_turns.h"
#include "runtime/model_files.h"

namespace fathom::runtime {

// The vocabulary is made when the first constraint is compiled, which takes tens of milliseconds.
// Any thread.
class ModelConstraints {
 public:
  // `files` must outlive this object. max_memory: bytes.
  explicit ModelConstraints(const ModelFiles& files,
                            std::int64_t max_memory = DefaultConstraintMemory())
      : files_(files), max_memory_(max_memory) {}

  // Compiles like ConstraintCompiler::Compile, in the turn of the caller. Error (kStopped): the
  // caller has abandoned it.
  ConstraintResult<std::shared_ptr<const Constraint>> Compile(const ConstraintSpec& spec,
                                                              const Caller& caller = {});

  // Returns the bytes, without the vocabulary.
  std::int64_t memory_used() const;
  std::int64_t memory_limit() const { return max_memory_; }

 private:
  ConstraintCompiler& compiler();

  const ModelFiles& files_;
  const std::int64_t max_memory_;
  std::once_flag made_;
  std::atomic<bool> is_made_ = false;
  std::unique_ptr<ConstraintCompiler> compiler_;
  CompileTurns turns_;
};

}  // namespace fathom::runtime
