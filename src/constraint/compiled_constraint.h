// CompiledConstraint: the data that all answers under one constraint share, in all requests: the
// grammar, its automaton and masks so far, and the masks of the phases without a grammar.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraint/constraint.h"
#include "constraint/constraint_core.h"
#include "constraint/constraint_error.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::constraint {

// How an answer may begin.
enum class AnswerOpening {
  kGrammar,  // with the grammar, which is the whole answer
  kFree,     // with text, in which a line that begins with <｜DSML｜ begins the grammar
};

// A core (ConstraintCore) keeps the results that any answer has computed, up to a limit. Whether an
// answer ends must not depend on other answers. So where the core is exhausted, the answer's own
// text is read again in a new core, which replaces the old one; the second time, in a core that
// serves this answer alone. An answer ends only if its text and its mask exhaust an unused core.
// Where a core is lost, its answers are read again, too, but this does not count as the first time.
// A core with the results of several answers has at least the states that each answer needs alone,
// so wherever it suffices, an unused core suffices.
class CompiledConstraint {
 public:
  // Writes the grammar, the same one each time. Returns null if the pace has ended the work.
  using WriteGrammar = std::function<std::unique_ptr<Grammar>(WorkPace* pace)>;

  // `grammar`: a result of `write`, on which the work of compiling goes on until FinishCompiling.
  // masks_calls: the answer must reach the grammar, so the reasoning must not begin a block of
  // calls.
  CompiledConstraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                     std::unique_ptr<Grammar> grammar, WriteGrammar write, AnswerOpening opening,
                     bool masks_calls, const MatcherLimits& limits = {});

  const ConstraintVocabulary& vocabulary() const { return *vocabulary_; }
  AnswerOpening opening() const { return opening_; }
  std::vector<std::string>& relaxed() { return relaxed_; }
  // Keeps the account of the memory that `write` holds.
  void KeepSource(std::unique_ptr<ConstraintMemory::Account> source) {
    source_ = std::move(source);
  }
  const std::vector<std::string>& relaxed() const { return relaxed_; }

  // The masks of the phases without a grammar.
  const TokenMask& reasoning_mask() const { return reasoning_mask_; }
  // after_angle: the text so far ends with a < that begins a line.
  const TokenMask& free_mask(bool after_angle) const {
    return after_angle ? free_mask_after_angle_ : free_mask_;
  }
  const TokenMask& end_mask() const { return end_mask_; }

  // --- Any thread ---
  // Ends the work of compiling. Errors: the work was given up (EndError); the constraint allows no
  // text at all.
  ConstraintResult<void> FinishCompiling();

  // A place in the grammar: the text that was read, and the state after it in a core. Without a
  // core, the state is found by reading the text again.
  struct Place {
    std::shared_ptr<ConstraintCore> core{};
    const MatcherState* state = nullptr;
    const ReadText* read = nullptr;
    bool has_moved = false;  // an exhausted core was left for another since the answer began
  };
  // Work in a core whose mutex is held. Sets `to` to the new state if the work reads text. May be
  // done again in another core.
  using Work =
      std::function<Status(ConstraintCore& core, const MatcherState& from, MatcherState& to)>;
  // The core in which the work was done, and the state that it moved to, which the core's mutex
  // guards.
  struct Done {
    std::shared_ptr<ConstraintCore> core{};
    MatcherState to{};
    bool has_moved = false;
  };
  // Does work at a place. Errors: the errors of the work; kResourceExhausted; kUnavailable: `pace`,
  // which may be null, has ended the work.
  Result<Done> Do(const Place& place, const Work& work, WorkPace* pace);

 private:
  void MakeMasks(bool masks_calls);
  std::shared_ptr<ConstraintCore> MakeCore(std::unique_ptr<Grammar> grammar) const;
  std::shared_ptr<ConstraintCore> Current() const;
  void Replace(std::shared_ptr<ConstraintCore> core);
  // The ways in which work in a core can end.
  enum class Tried {
    kDone,
    kExhausted,  // the core is exhausted
    kLost,       // the core is lost
    kStopped,    // the pace has ended the work
  };
  Tried TryIn(const std::shared_ptr<ConstraintCore>& core, const Place& place, const Work& work,
              WorkPace* pace, Done& done, Status& status) const;

  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const WriteGrammar write_;
  const AnswerOpening opening_;
  const MatcherLimits limits_;
  std::vector<std::string> relaxed_;
  std::unique_ptr<ConstraintMemory::Account> source_;
  TokenMask reasoning_mask_;
  TokenMask free_mask_;
  TokenMask free_mask_after_angle_;
  TokenMask end_mask_;
  mutable std::mutex mutex_;
  std::shared_ptr<ConstraintCore> current_;  // guarded by mutex_
};

// Makes the constraint of one request from a compiled one and from the end of its prompt.
// `prefill`: see ConstraintSpec. Errors: kInvalidArgument: no answer begins with the prefill; the
// errors of CompiledConstraint::Do.
Result<std::shared_ptr<const Constraint>> MakeConstraint(
    std::shared_ptr<CompiledConstraint> compiled, bool in_reasoning, std::string_view prefill,
    WorkPace* pace);

}  // namespace fathom::constraint
