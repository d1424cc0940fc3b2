// ModelConstraints: compiles constraints for the vocabulary of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "constraint/constraint.h"
#include "runtime/model_files.h"

namespace fathom {

// The vocabulary is made when the first constraint is compiled, which takes tens of milliseconds.
// Any thread.
class ModelConstraints {
 public:
  // `files` must outlive it.
  explicit ModelConstraints(const ModelFiles& files) : files_(files) {}

  // ConstraintCompiler::Compile.
  ConstraintResult<std::shared_ptr<const Constraint>> Compile(const ConstraintSpec& spec);

 private:
  ConstraintCompiler& compiler();

  const ModelFiles& files_;
  std::once_flag made_;
  std::unique_ptr<ConstraintCompiler> compiler_;
};

}  // namespace fathom
