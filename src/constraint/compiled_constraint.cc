#include "constraint/compiled_constraint.h"

#include <utility>

namespace fathom::constraint {
namespace {

TokenMask ToMask(TokenSet tokens) {
  const std::int64_t n = tokens.size();
  return {std::make_shared<const std::vector<std::uint64_t>>(tokens.words()), n};
}

// Begins and ends work in a core.
class CoreWork {
 public:
  CoreWork(ConstraintCore& core, WorkPace* pace) : core_(core) { core_.BeginWork(pace); }
  CoreWork(const CoreWork&) = delete;
  CoreWork& operator=(const CoreWork&) = delete;
  ~CoreWork() { core_.EndWork(); }

 private:
  ConstraintCore& core_;
};

tl::unexpected<Error> StoppedError() {
  return MakeError(ErrorCode::kUnavailable, "nobody waits for the constraint any more");
}

}  // namespace

CompiledConstraint::CompiledConstraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                       std::unique_ptr<Grammar> grammar, WriteGrammar write,
                                       AnswerOpening opening, bool masks_calls,
                                       const MatcherLimits& limits)
    : vocabulary_(std::move(vocabulary)),
      write_(std::move(write)),
      opening_(opening),
      limits_(limits),
      current_(MakeCore(std::move(grammar))) {
  MakeMasks(masks_calls);
}

// Makes the masks of docs/spec/constrained.md 1.3 and 2.5.
void CompiledConstraint::MakeMasks(bool masks_calls) {
  const MeaningfulTokens& named = vocabulary_->meaningful();
  TokenSet all(vocabulary_->vocab_size());
  for (Token token = 0; token < vocabulary_->vocab_size(); ++token) all.Add(token);
  const auto without = [&](std::initializer_list<std::optional<Token>> tokens) {
    TokenSet rest = all;
    for (const std::optional<Token>& token : tokens) {
      if (token) rest.Remove(*token);
    }
    return rest;
  };
  if (opening_ == AnswerOpening::kGrammar) {
    TokenSet reasoning = without(
        {named.begin_of_sentence, named.end_of_sentence, named.pad, named.user, named.assistant});
    for (const Token token : vocabulary_->end_tokens()) reasoning.Remove(token);
    if (masks_calls && named.dsml) reasoning.Remove(*named.dsml);
    reasoning_mask_ = ToMask(std::move(reasoning));
  }
  TokenSet free = without({named.begin_of_sentence, named.pad, named.user, named.assistant,
                           named.think_open, named.think_close});
  free_mask_after_angle_ = ToMask(free);
  if (named.dsml) free.Remove(*named.dsml);
  free_mask_ = ToMask(std::move(free));
  TokenSet end(vocabulary_->vocab_size());
  for (const Token token : vocabulary_->end_tokens()) end.Add(token);
  end_mask_ = ToMask(std::move(end));
}

std::shared_ptr<ConstraintCore> CompiledConstraint::MakeCore(
    std::unique_ptr<Grammar> grammar) const {
  const auto core = std::make_shared<ConstraintCore>(vocabulary_, std::move(grammar), limits_);
  core->FinishCompiling();
  core->SetOwner(core);
  return core;
}

std::shared_ptr<ConstraintCore> CompiledConstraint::Current() const {
  const std::scoped_lock lock(mutex_);
  return current_;
}

void CompiledConstraint::Replace(std::shared_ptr<ConstraintCore> core) {
  const std::scoped_lock lock(mutex_);
  current_.swap(core);
}

ConstraintResult<void> CompiledConstraint::FinishCompiling() {
  const std::shared_ptr<ConstraintCore> core = Current();
  const auto lock = core->Lock();
  core->EndWork();
  if (core->meter().HasEnded()) return EndError(core->meter());
  if (core->IsExhausted()) {
    return MakeConstraintError(ConstraintErrorCode::kTooLarge,
                               "expected a constraint of which a text is found in "
                               "fewer steps, found none in so many");
  }
  if (!core->IsUnsatisfiable()) return {};
  return MakeConstraintError(ConstraintErrorCode::kUnsatisfiableSchema,
                             "the constraint allows no text at all");
}

CompiledConstraint::Tried CompiledConstraint::TryIn(const std::shared_ptr<ConstraintCore>& core,
                                                    const Place& place, const Work& work,
                                                    WorkPace* pace, Done& done,
                                                    Status& status) const {
  const auto lock = core->Lock(pace);
  if (!lock.owns_lock()) return Tried::kStopped;
  if (core->IsLost()) return Tried::kLost;
  if (core->IsExhausted()) return Tried::kExhausted;
  const CoreWork counted(*core, pace);
  MatcherState again;
  status = {};
  if (core != place.core) status = core->ReadAgain(place.read, again);
  if (status) status = work(*core, core == place.core ? *place.state : again, done.to);
  if (!status || core->IsExhausted()) done.to = {};
  if (core->IsLost()) return Tried::kStopped;
  if (core->IsExhausted()) return Tried::kExhausted;
  done.core = core;
  return Tried::kDone;
}

Result<CompiledConstraint::Done> CompiledConstraint::Do(const Place& place, const Work& work,
                                                        WorkPace* pace) {
  Done done;
  Status status;
  const auto try_in = [&](const std::shared_ptr<ConstraintCore>& core) {
    return TryIn(core, place, work, pace, done, status);
  };
  const auto needs_other = [](Tried tried) {
    return tried == Tried::kExhausted || tried == Tried::kLost;
  };
  Tried tried = place.core != nullptr ? try_in(place.core) : Tried::kLost;
  const bool has_moved = place.has_moved || tried == Tried::kExhausted;
  if (const std::shared_ptr<ConstraintCore> current = Current();
      needs_other(tried) && !place.has_moved && current != place.core) {
    tried = try_in(current);
  }
  if (needs_other(tried)) {
    std::unique_ptr<Grammar> grammar = write_(pace);
    if (grammar == nullptr) return StoppedError();
    const std::shared_ptr<ConstraintCore> unused = MakeCore(std::move(grammar));
    tried = try_in(unused);
    if (tried == Tried::kDone && !place.has_moved) Replace(unused);
  }
  // No other thread knows an unused core, so only a pace can have ended its work.
  if (tried == Tried::kStopped || tried == Tried::kLost) return StoppedError();
  if (tried != Tried::kDone) return ConstraintCore::TooComplexError();
  if (!status) return Unexpected(std::move(status.error()));
  done.has_moved = has_moved;
  return done;
}

}  // namespace fathom::constraint
