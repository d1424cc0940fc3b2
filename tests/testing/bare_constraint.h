// BareConstraint: a base for the constraints of tests that have no grammar.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/constraint.h"

namespace fathom::testing {

class BareConstraint : public Constraint {
 public:
  // Returns the same state: no test reads text without tokens.
  Result<ConstraintState> AdvanceText(const ConstraintState& state,
                                      std::string_view /*text*/) const override {
    return state;
  }
  const std::vector<std::string>& relaxed() const override { return relaxed_; }

 protected:
  explicit BareConstraint(std::vector<std::string> relaxed = {}) : relaxed_(std::move(relaxed)) {}

 private:
  const std::vector<std::string> relaxed_;
};

}  // namespace fathom::testing
