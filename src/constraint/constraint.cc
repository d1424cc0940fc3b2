#include "constraint/constraint.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "constraint/constraint_core.h"

namespace fathom {
namespace {

enum class AnswerPhase {
  kReasoning,  // up to </think>
  kFree,       // text before a block of calls
  kGrammar,
  kEnded,  // behind an end token
};

// Where free text or reasoning stands: whether a block of calls may begin here.
struct LinePlace {
  bool is_start = true;
  bool after_angle = false;  // behind < at the start of a line

  void Add(std::string_view text) {
    for (const char c : text) {
      after_angle = is_start && c == '<';
      is_start = c == '\n';
    }
  }
};

}  // namespace

struct ConstraintState::Impl {
  Impl(std::shared_ptr<ConstraintCore> owner, AnswerPhase in, LinePlace at, MatcherState state)
      : core(std::move(owner)), phase(in), place(at), matcher(std::move(state)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // The parts of a matcher's state have counts of their own, which the mutex guards.
  ~Impl() {
    const std::scoped_lock lock(core->mutex());
    matcher = {};
  }

  const std::shared_ptr<ConstraintCore> core;
  const AnswerPhase phase;
  const LinePlace place;
  MatcherState matcher;
};

namespace {

class AnswerConstraint final : public Constraint {
 public:
  AnswerConstraint(std::shared_ptr<ConstraintCore> core, ConstraintState begin)
      : core_(std::move(core)), begin_(std::move(begin)) {}

  ConstraintState Begin() const override { return begin_; }

  Result<TokenMask> Mask(const ConstraintState& state) const override {
    const ConstraintState::Impl& at = *state.get();
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return core_->reasoning_mask();
      case AnswerPhase::kFree:
        return core_->free_mask(at.place.after_angle);
      case AnswerPhase::kEnded:
        return core_->end_mask();
      case AnswerPhase::kGrammar:
        break;
    }
    const std::scoped_lock lock(core_->mutex());
    const std::shared_ptr<const MaskBuilder::Mask> mask = core_->Mask(at.matcher);
    if (mask == nullptr) return ConstraintCore::TooComplexError();
    return TokenMask({mask, &mask->tokens.words()}, mask->n_tokens);
  }

  Result<ConstraintState> Advance(const ConstraintState& state, Token token) const override {
    const ConstraintState::Impl& at = *state.get();
    if (!core_->vocabulary().Has(token)) return NotAllowed(token);
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return BehindReasoning(at, token);
      case AnswerPhase::kFree:
        if (!core_->free_mask(at.place.after_angle).Allows(token)) return NotAllowed(token);
        if (IsEnd(token)) return Ended();
        if (token == core_->vocabulary().meaningful().dsml) return BehindOpener(token);
        return InText(at, AnswerPhase::kFree, token);
      case AnswerPhase::kEnded:
        return IsEnd(token) ? Result<ConstraintState>(state) : NotAllowed(token);
      case AnswerPhase::kGrammar:
        break;
    }
    if (IsEnd(token) && at.matcher.accepts) return Ended();
    MatcherState next;
    {
      const std::scoped_lock lock(core_->mutex());
      const bool is_allowed = core_->Advance(at.matcher, token, next);
      if (core_->TooComplex()) {
        next = {};
        return ConstraintCore::TooComplexError();
      }
      if (!is_allowed) {
        next = {};
        return NotAllowed(token);
      }
    }
    return Make(AnswerPhase::kGrammar, {}, std::move(next));
  }

  Result<ConstraintState> AdvanceText(const ConstraintState& state,
                                      std::string_view text) const override {
    const ConstraintState::Impl& at = *state.get();
    if (at.phase != AnswerPhase::kGrammar) {
      LinePlace place = at.place;
      place.Add(text);
      return Make(at.phase, place);
    }
    MatcherState next;
    {
      const std::scoped_lock lock(core_->mutex());
      const Status read = core_->Read(at.matcher, text, next);
      if (!read) {
        next = {};
        return Unexpected(read.error());
      }
    }
    return Make(AnswerPhase::kGrammar, {}, std::move(next));
  }

  bool CanEnd(const ConstraintState& state) const override {
    const ConstraintState::Impl& at = *state.get();
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return core_->opening() == AnswerOpening::kFree;
      case AnswerPhase::kFree:
      case AnswerPhase::kEnded:
        return true;
      case AnswerPhase::kGrammar:
        return at.matcher.accepts;
    }
    return false;
  }

  const std::vector<std::string>& relaxed() const override { return core_->relaxed(); }

  std::size_t memory() const override {
    const std::scoped_lock lock(core_->mutex());
    return core_->memory();
  }

 private:
  bool IsEnd(Token token) const {
    const std::vector<Token>& ends = core_->vocabulary().end_tokens();
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }

  ConstraintState Make(AnswerPhase phase, LinePlace place, MatcherState matcher = {}) const {
    return ConstraintState(
        std::make_shared<const ConstraintState::Impl>(core_, phase, place, std::move(matcher)));
  }
  ConstraintState Ended() const { return Make(AnswerPhase::kEnded, {}); }

  ConstraintState InText(const ConstraintState::Impl& at, AnswerPhase phase, Token token) const {
    LinePlace place = at.place;
    place.Add(core_->vocabulary().TextOf(token));
    return Make(phase, place);
  }

  Result<ConstraintState> BehindOpener(Token token) const {
    MatcherState state;
    {
      const std::scoped_lock lock(core_->mutex());
      state = core_->BehindOpener();
    }
    if (state.IsDead()) return NotAllowed(token);
    return Make(AnswerPhase::kGrammar, {}, std::move(state));
  }

  // Only </think> ends the reasoning; with text behind it, a block that the model begins in the
  // reasoning ends it too (docs/spec/encoding.md 9.2).
  Result<ConstraintState> BehindReasoning(const ConstraintState::Impl& at, Token token) const {
    if (!core_->reasoning_mask().Allows(token)) return NotAllowed(token);
    const MeaningfulTokens& named = core_->vocabulary().meaningful();
    const bool is_free = core_->opening() == AnswerOpening::kFree;
    if (token == named.think_close) {
      if (is_free) return Make(AnswerPhase::kFree, {});
      MatcherState state;
      {
        const std::scoped_lock lock(core_->mutex());
        core_->Reset();
        state = core_->Begin();
      }
      return Make(AnswerPhase::kGrammar, {}, std::move(state));
    }
    if (IsEnd(token)) return Ended();
    if (is_free && at.place.after_angle && token == named.dsml) return BehindOpener(token);
    return InText(at, AnswerPhase::kReasoning, token);
  }

  static tl::unexpected<Error> NotAllowed(Token token) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "constraint: expected a token that the grammar allows, found {}", token);
  }

  const std::shared_ptr<ConstraintCore> core_;
  const ConstraintState begin_;
};

}  // namespace

Result<std::shared_ptr<const Constraint>> MakeConstraint(std::shared_ptr<ConstraintCore> core,
                                                         bool in_reasoning,
                                                         std::string_view prefill) {
  LinePlace place;
  MatcherState state;
  AnswerPhase phase = AnswerPhase::kReasoning;
  if (!in_reasoning && core->opening() == AnswerOpening::kFree) {
    phase = AnswerPhase::kFree;
    place.Add(prefill);
  } else if (!in_reasoning) {
    phase = AnswerPhase::kGrammar;
    const std::scoped_lock lock(core->mutex());
    core->Reset();
    const MatcherState first = core->Begin();
    if (const Status read = core->Read(first, prefill, state); !read) {
      state = {};
      return MakeError(read.error().code, "the beginning of the answer: {}", read.error().message);
    }
  }
  auto begin = std::make_shared<const ConstraintState::Impl>(core, phase, place, std::move(state));
  return std::make_shared<const AnswerConstraint>(std::move(core),
                                                  ConstraintState(std::move(begin)));
}

}  // namespace fathom
