// ModelConstraints: compiles constraints for the vocabulary of a model.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/caller.h"
#include "constraint/constraint.h"
#include "runtime/compile_turns.h"
#include "runtime/model_files.h"

namespace fathom {

// The memory of constraints (constraint/constraint_memory.h) where nobody says another: a sixteenth
// of what is usable, at least 512 MiB and at most 4 GiB.
std::int64_t DefaultConstraintMemory(std::int64_t usable_bytes);
// As DefaultConstraintMemory, of this machine or its control group (base/usable_memory.h).
std::int64_t DefaultConstraintMemory();

// The vocabulary is made when the first constraint is compiled, which takes tens of milliseconds.
// Any thread.
class ModelConstraints {
 public:
  // `files` must outlive it. max_memory: bytes.
  explicit ModelConstraints(const ModelFiles& files,
                            std::int64_t max_memory = DefaultConstraintMemory())
      : files_(files), max_memory_(max_memory) {}

  // Compiles as ConstraintCompiler::Compile, in the turn of the caller. Error (kStopped): the
  // caller has abandoned it.
  ConstraintResult<std::shared_ptr<const Constraint>> Compile(const ConstraintSpec& spec,
                                                              const Caller& caller = {});

  // Bytes, without those of the vocabulary.
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

}  // namespace fathom
