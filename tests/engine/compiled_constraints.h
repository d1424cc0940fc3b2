// Constraints of the embedded model's vocabulary: schemas, expressions, grammars, calls of tools.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "constraint/constraint.h"

namespace fathom::testing {

class CompiledConstraints {
 public:
  // `vocab_size`: of the model.
  explicit CompiledConstraints(std::int64_t vocab_size);

  // One of them, in the reasoning or behind it.
  std::shared_ptr<const Constraint> Choose(std::uint64_t number);

 private:
  std::unique_ptr<ConstraintCompiler> compiler_;
  std::vector<ConstraintSpec> specs_;
};

}  // namespace fathom::testing
