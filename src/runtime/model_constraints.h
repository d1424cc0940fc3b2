// ModelConstraints: compiles constraints for the vocabulary of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/caller.h"
#include "constraint/constraint.h"
#include "runtime/compile_turns.h"
#include "runtime/model_files.h"

namespace fathom {

// The vocabulary is made when the first constraint is compiled, which takes tens of milliseconds.
// Any thread.
class ModelConstraints {
 public:
  // `files` must outlive it.
  explicit ModelConstraints(const ModelFiles& files) : files_(files) {}

  // Compiles as ConstraintCompiler::Compile, in the turn of the caller. Error (kStopped): the
  // caller has abandoned it.
  ConstraintResult<std::shared_ptr<const Constraint>> Compile(const ConstraintSpec& spec,
                                                              const Caller& caller = {});

 private:
  ConstraintCompiler& compiler();

  const ModelFiles& files_;
  std::once_flag made_;
  std::unique_ptr<ConstraintCompiler> compiler_;
  CompileTurns turns_;
};

}  // namespace fathom
