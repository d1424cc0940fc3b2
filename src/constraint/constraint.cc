#include "constraint/constraint.h"

#include <algorithm>
#include <utility>

#include "constraint/compiled_constraint.h"

namespace fathom::constraint {
namespace {

enum class AnswerPhase {
  kReasoning,  // up to </think>
  kFree,       // text before a block of calls
  kGrammar,
  kEnded,  // after an end token
};

// The place of free text or reasoning in its line, which decides whether a block of calls may begin
// here.
struct LinePlace {
  bool is_start = true;
  bool after_angle = false;  // after < at the start of a line

  void Add(std::string_view text) {
    for (const char c : text) {
      after_angle = is_start && c == '<';
      is_start = c == '\n';
    }
  }
};

}  // namespace

struct ConstraintState::Impl {
  Impl(AnswerPhase in, LinePlace at) : phase(in), place(at) {}
  Impl(CompiledConstraint::Done done, std::shared_ptr<const ReadText> last)
      : phase(AnswerPhase::kGrammar),
        core(std::move(done.core)),
        matcher(std::move(done.to)),
        read(std::move(last)),
        has_moved(done.has_moved) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // The parts of a matcher's state have reference counts, which the mutex of the core guards.
  ~Impl() {
    if (core != nullptr) core->Free(std::move(matcher));
  }

  CompiledConstraint::Place Place() const { return {core, &matcher, read.get(), has_moved}; }

  const AnswerPhase phase;
  const LinePlace place{};  // kReasoning, kFree
  // kGrammar:
  const std::shared_ptr<ConstraintCore> core{};
  MatcherState matcher{};
  const std::shared_ptr<const ReadText> read{};
  const bool has_moved = false;  // CompiledConstraint::Place
};

namespace {

ConstraintState InPhase(AnswerPhase phase, LinePlace place = {}) {
  return ConstraintState(std::make_shared<const ConstraintState::Impl>(phase, place));
}

// The state after `last`, to which `work` moves from `from`.
Result<ConstraintState> InGrammar(CompiledConstraint& compiled,
                                  const CompiledConstraint::Place& from,
                                  std::shared_ptr<const ReadText> last,
                                  const CompiledConstraint::Work& work, WorkPace* pace) {
  Result<CompiledConstraint::Done> done = compiled.Do(from, work, pace);
  if (!done) return Unexpected(std::move(done.error()));
  return ConstraintState(
      std::make_shared<const ConstraintState::Impl>(*std::move(done), std::move(last)));
}

// The state after a text, which may be empty.
Result<ConstraintState> AfterText(CompiledConstraint& compiled,
                                  const CompiledConstraint::Place& from,
                                  const std::shared_ptr<const ReadText>& read,
                                  std::string_view text, WorkPace* pace) {
  auto last = read;
  if (!text.empty()) {
    last = std::make_shared<const ReadText>(read, ReadText::Kind::kText, Token{0}, text);
  }
  return InGrammar(
      compiled, from, std::move(last),
      [&](ConstraintCore& core, const MatcherState& state, MatcherState& to) {
        return core.Read(state, text, to);
      },
      pace);
}

class AnswerConstraint final : public Constraint {
 public:
  AnswerConstraint(std::shared_ptr<CompiledConstraint> compiled, ConstraintState begin)
      : compiled_(std::move(compiled)), begin_(std::move(begin)) {}

  ConstraintState Begin() const override { return begin_; }

  Result<TokenMask> Mask(const ConstraintState& state, WorkPace* pace) const override {
    const ConstraintState::Impl& at = *state.get();
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return compiled_->reasoning_mask();
      case AnswerPhase::kFree:
        return compiled_->free_mask(at.place.after_angle);
      case AnswerPhase::kEnded:
        return compiled_->end_mask();
      case AnswerPhase::kGrammar:
        break;
    }
    std::shared_ptr<const MaskBuilder::Mask> mask;
    const auto build = [&](ConstraintCore& core, const MatcherState& from, MatcherState&) {
      Result<std::shared_ptr<const MaskBuilder::Mask>> built = core.Mask(from);
      if (!built) return Status(Unexpected(std::move(built.error())));
      mask = *std::move(built);
      return Status();
    };
    const Result<CompiledConstraint::Done> done = compiled_->Do(at.Place(), build, pace);
    if (!done) return Unexpected(done.error());
    return TokenMask({mask, &mask->tokens.words()}, mask->n_tokens);
  }

  Result<ConstraintState> Advance(const ConstraintState& state, Token token,
                                  WorkPace* pace) const override {
    const ConstraintState::Impl& at = *state.get();
    if (!compiled_->vocabulary().Has(token)) return TokenNotAllowed(token);
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return AfterReasoning(at, token, pace);
      case AnswerPhase::kFree:
        if (!compiled_->free_mask(at.place.after_angle).Allows(token)) {
          return TokenNotAllowed(token);
        }
        if (IsEnd(token)) return InPhase(AnswerPhase::kEnded);
        if (token == compiled_->vocabulary().meaningful().dsml) {
          return AfterOpener(token, pace);
        }
        return InText(at, AnswerPhase::kFree, token);
      case AnswerPhase::kEnded:
        return IsEnd(token) ? Result<ConstraintState>(state) : TokenNotAllowed(token);
      case AnswerPhase::kGrammar:
        break;
    }
    if (IsEnd(token) && at.matcher.accepts) return InPhase(AnswerPhase::kEnded);
    return InGrammar(
        *compiled_, at.Place(),
        std::make_shared<const ReadText>(at.read, ReadText::Kind::kToken, token, ""),
        [&](ConstraintCore& core, const MatcherState& from, MatcherState& to) {
          return core.Advance(from, token, to);
        },
        pace);
  }

  Result<ConstraintState> AdvanceText(const ConstraintState& state,
                                      std::string_view text) const override {
    const ConstraintState::Impl& at = *state.get();
    if (at.phase != AnswerPhase::kGrammar) {
      LinePlace place = at.place;
      place.Add(text);
      return InPhase(at.phase, place);
    }
    return AfterText(*compiled_, at.Place(), at.read, text, nullptr);
  }

  bool CanEnd(const ConstraintState& state) const override {
    const ConstraintState::Impl& at = *state.get();
    switch (at.phase) {
      case AnswerPhase::kReasoning:
        return compiled_->opening() == AnswerOpening::kFree;
      case AnswerPhase::kFree:
      case AnswerPhase::kEnded:
        return true;
      case AnswerPhase::kGrammar:
        return at.matcher.accepts;
    }
    return false;
  }

  const std::vector<std::string>& relaxed() const override { return compiled_->relaxed(); }

 private:
  bool IsEnd(Token token) const {
    const std::vector<Token>& ends = compiled_->vocabulary().end_tokens();
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }

  ConstraintState InText(const ConstraintState::Impl& at, AnswerPhase phase, Token token) const {
    LinePlace place = at.place;
    place.Add(compiled_->vocabulary().Text(token));
    return InPhase(phase, place);
  }

  Result<ConstraintState> AfterOpener(Token token, WorkPace* pace) const {
    const auto opener =
        std::make_shared<const ReadText>(nullptr, ReadText::Kind::kOpener, Token{0}, "");
    return InGrammar(
        *compiled_, {.read = opener.get()}, opener,
        [&](ConstraintCore&, const MatcherState& from, MatcherState& to) {
          if (from.IsDead()) return Status(TokenNotAllowed(token));
          to = from;
          return Status();
        },
        pace);
  }

  // Only </think> ends the reasoning. Where free text follows, a block of calls that the model
  // begins within the reasoning ends it, too (docs/spec/encoding.md 9.2).
  Result<ConstraintState> AfterReasoning(const ConstraintState::Impl& at, Token token,
                                         WorkPace* pace) const {
    if (!compiled_->reasoning_mask().Allows(token)) return TokenNotAllowed(token);
    const MeaningfulTokens& named = compiled_->vocabulary().meaningful();
    const bool is_free = compiled_->opening() == AnswerOpening::kFree;
    if (token == named.think_close) {
      if (is_free) return InPhase(AnswerPhase::kFree);
      return AfterText(*compiled_, {}, nullptr, "", pace);
    }
    if (IsEnd(token)) return InPhase(AnswerPhase::kEnded);
    if (is_free && at.place.after_angle && token == named.dsml) return AfterOpener(token, pace);
    return InText(at, AnswerPhase::kReasoning, token);
  }

  const std::shared_ptr<CompiledConstraint> compiled_;
  const ConstraintState begin_;
};

}  // namespace

Result<std::shared_ptr<const Constraint>> MakeConstraint(
    std::shared_ptr<CompiledConstraint> compiled, bool in_reasoning, std::string_view prefill,
    WorkPace* pace) {
  ConstraintState begin;
  if (in_reasoning) {
    begin = InPhase(AnswerPhase::kReasoning);
  } else if (compiled->opening() == AnswerOpening::kFree) {
    LinePlace place;
    place.Add(prefill);
    begin = InPhase(AnswerPhase::kFree, place);
  } else {
    Result<ConstraintState> behind = AfterText(*compiled, {}, nullptr, prefill, pace);
    if (!behind) {
      return MakeError(behind.error().code, "the beginning of the answer: {}",
                       behind.error().message);
    }
    begin = *std::move(behind);
  }
  return std::make_shared<const AnswerConstraint>(std::move(compiled), std::move(begin));
}

}  // namespace fathom::constraint
