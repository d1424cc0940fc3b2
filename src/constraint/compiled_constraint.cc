#include "constraint/compiled_constraint.h"

#include <utility>

namespace fathom {
namespace {

TokenMask ToMask(TokenSet tokens) {
  const std::int64_t n = tokens.size();
  return {std::make_shared<const std::vector<std::uint64_t>>(tokens.words()), n};
}

// Has a pace asked during the work that a meter counts.
class PacedWork {
 public:
  PacedWork(WorkMeter& meter, WorkPace* pace) : meter_(meter) { meter_.SetPace(pace); }
  PacedWork(const PacedWork&) = delete;
  PacedWork& operator=(const PacedWork&) = delete;
  ~PacedWork() { meter_.SetPace(nullptr); }

 private:
  WorkMeter& meter_;
};

tl::unexpected<Error> StoppedError() {
  return MakeError(ErrorCode::kUnavailable, "nobody waits for the constraint any more");
}

}  // namespace

CompiledConstraint::CompiledConstraint(std::shared_ptr<const VocabularyTables> vocabulary,
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

// docs/spec/constrained.md 1.3 and 2.5.
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
  return std::make_shared<ConstraintCore>(vocabulary_, std::move(grammar), limits_);
}

std::shared_ptr<ConstraintCore> CompiledConstraint::Current() const {
  const std::scoped_lock lock(mutex_);
  return current_;
}

void CompiledConstraint::Replace(std::shared_ptr<ConstraintCore> core) {
  const std::scoped_lock lock(mutex_);
  current_.swap(core);
}

bool CompiledConstraint::IsUnsatisfiable() const {
  const std::shared_ptr<ConstraintCore> core = Current();
  const auto lock = core->Lock();
  return core->IsUnsatisfiable();
}

std::optional<ConstraintError> CompiledConstraint::FindEnd() const {
  const std::shared_ptr<ConstraintCore> core = Current();
  const auto lock = core->Lock();
  if (!core->meter().HasEnded()) return std::nullopt;
  return EndError(core->meter());
}

std::size_t CompiledConstraint::memory() const {
  const std::shared_ptr<ConstraintCore> core = Current();
  const auto lock = core->Lock();
  return core->memory();
}

std::optional<std::size_t> CompiledConstraint::MemoryAtOnce() const {
  const std::shared_ptr<ConstraintCore> core = Current();
  const std::optional lock = core->TryLock();
  if (!lock) return std::nullopt;
  return core->memory();
}

CompiledConstraint::Tried CompiledConstraint::TryIn(const std::shared_ptr<ConstraintCore>& core,
                                                    const Place& place, const Work& work,
                                                    WorkPace* pace, Done& done,
                                                    Status& status) const {
  const auto lock = core->Lock(pace);
  if (core->IsExhausted()) return Tried::kExhausted;
  const PacedWork paced(core->meter(), pace);
  MatcherState again;
  status = {};
  if (core != place.core) status = core->ReadAgain(place.read, again);
  if (status) status = work(*core, core == place.core ? *place.state : again, done.to);
  if (!status || core->IsExhausted()) done.to = {};
  if (core->meter().end() == WorkMeter::End::kStopped) return Tried::kStopped;
  if (core->IsExhausted()) return Tried::kExhausted;
  done.core = core;
  return Tried::kDone;
}

Result<CompiledConstraint::Done> CompiledConstraint::Do(const Place& place, const Work& work,
                                                        WorkPace* pace) {
  Done done;
  Status status;
  Tried tried = Tried::kExhausted;
  if (place.core != nullptr) tried = TryIn(place.core, place, work, pace, done, status);
  if (const std::shared_ptr<ConstraintCore> current = Current();
      tried == Tried::kExhausted && !place.has_moved && current != place.core) {
    tried = TryIn(current, place, work, pace, done, status);
  }
  if (tried == Tried::kExhausted) {
    std::unique_ptr<Grammar> grammar = write_(pace);
    if (grammar == nullptr) return StoppedError();
    const std::shared_ptr<ConstraintCore> unused = MakeCore(std::move(grammar));
    tried = TryIn(unused, place, work, pace, done, status);
    if (tried == Tried::kDone && !place.has_moved) Replace(unused);
  }
  if (tried == Tried::kStopped) return StoppedError();
  if (tried == Tried::kExhausted) return ConstraintCore::TooComplexError();
  if (!status) return Unexpected(std::move(status.error()));
  done.has_moved = place.has_moved || (place.core != nullptr && done.core != place.core);
  return done;
}

}  // namespace fathom
