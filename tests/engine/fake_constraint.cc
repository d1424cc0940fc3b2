#include "tests/engine/fake_constraint.h"

#include <algorithm>
#include <utility>

namespace fathom::testing {
namespace {

// The state of both constraints. ConstraintState points to it as to the state of a real one, which
// it keeps and never reads.
struct FakeState {
  std::uint64_t hash = 0;
  std::int64_t n_tokens = 0;
};

ConstraintState MakeState(const FakeState& state) {
  auto owner = std::make_shared<const FakeState>(state);
  const auto* view = reinterpret_cast<const ConstraintState::Impl*>(owner.get());
  return ConstraintState(std::shared_ptr<const ConstraintState::Impl>(std::move(owner), view));
}

const FakeState& ReadState(const ConstraintState& state) {
  return *reinterpret_cast<const FakeState*>(state.get());
}

std::uint64_t Scramble(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7FB5D329728EA185;
  x = (x ^ (x >> 27)) * 0x81DADEF4BC2DD44D;
  return x ^ (x >> 33);
}

std::uint64_t With(std::uint64_t hash, Token token) {
  return Scramble(hash ^ (static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15));
}

}  // namespace

TokenMask MakeMask(const std::vector<Token>& tokens, std::int64_t vocab_size) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>((vocab_size + 63) / 64));
  for (const Token token : tokens) {
    const auto t = static_cast<std::size_t>(token);
    words[t / 64] |= std::uint64_t{1} << (t % 64);
  }
  return {std::make_shared<const std::vector<std::uint64_t>>(std::move(words)), std::ssize(tokens)};
}

// --- FakeConstraint ---

ConstraintState FakeConstraint::Begin() const {
  return MakeState({.hash = Scramble(options_.seed + 1), .n_tokens = 0});
}

bool FakeConstraint::CanEnd(const ConstraintState& state) const {
  const FakeState& now = ReadState(state);
  return now.n_tokens >= options_.longest || now.hash % 5 == 0;
}

// One state in eight allows one token, one in eight anything, the others every second or every
// eighth.
bool FakeConstraint::Allows(const ConstraintState& state, Token token) const {
  const FakeState& now = ReadState(state);
  if (token == options_.eos) return CanEnd(state);
  if (now.n_tokens >= options_.longest) return false;
  const std::uint64_t kind = now.hash >> 8 & 7;
  const Token always =
      static_cast<Token>((now.hash >> 16) % static_cast<std::uint64_t>(options_.vocab_size - 1));
  if (token == (always < options_.eos ? always : always + 1)) return true;
  if (kind < 2) return kind == 1;
  return With(now.hash, token) % (kind < 5 ? 2 : 8) == 0;
}

Result<TokenMask> FakeConstraint::Mask(const ConstraintState& state, WorkPace* pace) const {
  const FakeState& now = ReadState(state);
  ++n_masks_;
  if (options_.on_mask) options_.on_mask(now.n_tokens, now.hash);
  if (options_.work && pace != nullptr && !options_.work(now.n_tokens, *pace)) {
    return MakeError(ErrorCode::kUnavailable, "the pace has ended the work");
  }
  if (now.n_tokens >= options_.fails_at && now.hash % 3 == 0) {
    return MakeError(ErrorCode::kResourceExhausted, "grammar: expected fewer leaves");
  }
  const bool is_free = now.n_tokens < options_.longest && (now.hash >> 8 & 7) == 1;
  if (is_free && CanEnd(state)) return TokenMask();
  std::vector<Token> tokens;
  for (Token token = 0; token < options_.vocab_size; ++token) {
    if (Allows(state, token)) tokens.push_back(token);
  }
  return MakeMask(tokens, options_.vocab_size);
}

Result<ConstraintState> FakeConstraint::Advance(const ConstraintState& state, Token token,
                                                WorkPace* /*pace*/) const {
  if (token == options_.eos || !Allows(state, token)) {
    ++n_illegal_;
    return MakeError(ErrorCode::kInvalidArgument, "expected an allowed token, found {}", token);
  }
  const FakeState& now = ReadState(state);
  return MakeState({.hash = With(now.hash, token), .n_tokens = now.n_tokens + 1});
}

bool FakeConstraint::Accepts(const std::vector<Token>& tokens) const {
  ConstraintState state = Begin();
  for (const Token& token : tokens) {
    if (!Allows(state, token)) return false;
    if (token == options_.eos) return &token == &tokens.back();
    state = *Advance(state, token, nullptr);
  }
  return true;
}

// --- ListedConstraint ---

ConstraintState ListedConstraint::Begin() const { return MakeState({}); }

bool ListedConstraint::Allows(const ConstraintState& state, Token token) const {
  const auto at =
      std::min(static_cast<std::size_t>(ReadState(state).n_tokens), allowed_.size() - 1);
  return std::ranges::find(allowed_[at], token) != allowed_[at].end();
}

Result<TokenMask> ListedConstraint::Mask(const ConstraintState& state, WorkPace* /*pace*/) const {
  const auto at =
      std::min(static_cast<std::size_t>(ReadState(state).n_tokens), allowed_.size() - 1);
  return MakeMask(allowed_[at], vocab_size_);
}

Result<ConstraintState> ListedConstraint::Advance(const ConstraintState& state, Token token,
                                                  WorkPace* /*pace*/) const {
  if (!Allows(state, token)) {
    return MakeError(ErrorCode::kInvalidArgument, "expected an allowed token, found {}", token);
  }
  return MakeState({.n_tokens = ReadState(state).n_tokens + 1});
}

}  // namespace fathom::testing
