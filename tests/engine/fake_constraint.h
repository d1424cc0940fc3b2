// A constraint without a grammar: what it allows is a hash of the tokens so far. It knows when a
// token reaches it that it does not allow.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "tests/testing/bare_constraint.h"

namespace fathom::testing {

struct FakeConstraintOptions {
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;
  Token eos = 1;
  // Behind as many tokens only `eos` is allowed.
  std::int64_t longest = 1000;
  // Behind as many tokens the mask is an error, if the hash says so.
  std::int64_t fails_at = 1000;
  // Called by Mask with the number of tokens so far, on the thread that computes it. May be empty.
  std::function<void(std::int64_t n_tokens, std::uint64_t hash)> on_mask{};
  // Likewise, with the pace of the work, if it has one. False: the pace has ended it.
  std::function<bool(std::int64_t n_tokens, WorkPace& pace)> work{};
};

class FakeConstraint final : public BareConstraint {
 public:
  explicit FakeConstraint(FakeConstraintOptions options) : options_(std::move(options)) {}

  ConstraintState Begin() const override;
  Result<TokenMask> Mask(const ConstraintState& state, WorkPace* pace) const override;
  Result<ConstraintState> Advance(const ConstraintState& state, Token token,
                                  WorkPace* pace) const override;
  bool CanEnd(const ConstraintState& state) const override;

  // Tokens that Advance was given and that the mask does not have.
  std::int64_t n_illegal() const { return n_illegal_; }
  std::int64_t n_masks() const { return n_masks_; }
  // True if the tokens are an answer, or the beginning of one.
  bool Accepts(const std::vector<Token>& tokens) const;

 private:
  bool Allows(const ConstraintState& state, Token token) const;

  const FakeConstraintOptions options_;
  mutable std::atomic<std::int64_t> n_illegal_ = 0;
  mutable std::atomic<std::int64_t> n_masks_ = 0;
};

// Allows the tokens that `allowed` lists for the number of tokens so far, the last list from then
// on; ends where `eos` is listed.
class ListedConstraint final : public BareConstraint {
 public:
  ListedConstraint(std::vector<std::vector<Token>> allowed, std::int64_t vocab_size, Token eos)
      : allowed_(std::move(allowed)), vocab_size_(vocab_size), eos_(eos) {}

  ConstraintState Begin() const override;
  Result<TokenMask> Mask(const ConstraintState& state, WorkPace* pace) const override;
  Result<ConstraintState> Advance(const ConstraintState& state, Token token,
                                  WorkPace* pace) const override;
  bool CanEnd(const ConstraintState& state) const override { return Allows(state, eos_); }

 private:
  bool Allows(const ConstraintState& state, Token token) const;

  const std::vector<std::vector<Token>> allowed_;
  const std::int64_t vocab_size_;
  const Token eos_;
};

// A mask with these tokens.
TokenMask MakeMask(const std::vector<Token>& tokens, std::int64_t vocab_size);

}  // namespace fathom::testing
