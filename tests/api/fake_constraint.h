// FakeConstraint: remembers what it was compiled from, and allows everything. Tests of requests ask
// it what the compiler was asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/common/answer_constraint.h"
#include "constraint/constraint.h"
#include "engine/request.h"
#include "tests/testing/bare_constraint.h"

namespace fathom::testing {

class FakeConstraint final : public BareConstraint {
 public:
  FakeConstraint(ConstraintSpec asked, std::vector<std::string> relaxed)
      : BareConstraint(std::move(relaxed)), spec(std::move(asked)) {}

  ConstraintState Begin() const override { return {}; }
  Result<TokenMask> Mask(const ConstraintState&, WorkPace*) const override { return TokenMask(); }
  Result<ConstraintState> Advance(const ConstraintState& state, Token, WorkPace*) const override {
    return state;
  }
  bool CanEnd(const ConstraintState&) const override { return true; }

  const ConstraintSpec spec;
};

// Sets the result of the next compilations. One thread.
struct FakeCompiler {
  std::vector<std::string> relaxed{};
  std::optional<ConstraintError> error{};
  std::string refused_prefill{};  // an answer that begins so is an error
  int n_compiled = 0;
  std::string owner{};  // of the last caller

  // The compiler must outlive the function.
  CompileConstraint Function() {
    return [this](const ConstraintSpec& spec,
                  const Caller& caller) -> ConstraintResult<std::shared_ptr<const Constraint>> {
      ++n_compiled;
      owner = caller.owner;
      if (caller.is_abandoned && caller.is_abandoned()) {
        return tl::unexpected<ConstraintError>(
            ConstraintError{.code = ConstraintErrorCode::kStopped});
      }
      if (!refused_prefill.empty() && spec.prefill == refused_prefill) {
        return tl::unexpected<ConstraintError>(
            ConstraintError{.code = ConstraintErrorCode::kUnsatisfiableSchema,
                            .message = "not so",
                            .issues = {{.reason = "not so"}}});
      }
      if (error) return tl::unexpected<ConstraintError>(*error);
      return std::make_shared<const FakeConstraint>(spec, relaxed);
    };
  }
};

// The spec behind a constraint that a FakeCompiler has made; one that asks for nothing if there is
// none.
inline ConstraintSpec SpecFrom(const std::shared_ptr<const Constraint>& constraint) {
  const auto* fake = dynamic_cast<const FakeConstraint*>(constraint.get());
  return fake == nullptr ? ConstraintSpec() : fake->spec;
}

}  // namespace fathom::testing
