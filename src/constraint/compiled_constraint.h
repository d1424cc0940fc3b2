// CompiledConstraint: what all answers of one constraint share, of whichever requests: the grammar,
// what was found of it, and the masks of the phases without a grammar.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraint/constraint.h"
#include "constraint/constraint_core.h"
#include "constraint/constraint_error.h"
#include "constraint/matcher_state.h"
#include "constraint/vocabulary.h"

namespace fathom {

// How an answer may begin.
enum class AnswerOpening {
  kGrammar,  // with the grammar, which is the whole answer
  kFree,     // with text, in which a line that begins with <｜DSML｜ begins the grammar
};

// A core keeps what any answer has found, up to a limit. What ends an answer must not depend on the
// others: where the core is exhausted, the answer's own text is read again in a new core, which
// takes the place of the old one; at the second time, in one that is the answer's own. Only if its
// text and its mask exhaust an unused core does the answer end. Where a core is lost, its answers
// are read again, too, as if it had been new. A core with what others have found has at least the
// states that an answer alone needs, so wherever it suffices, an unused one does.
class CompiledConstraint {
 public:
  // Writes the grammar, the same one each time; null if the pace has ended the work.
  using WriteGrammar = std::function<std::unique_ptr<Grammar>(WorkPace* pace)>;

  // `grammar`: as `write` writes it; its work goes on until FinishCompiling. masks_calls: the
  // reasoning may not begin a block of calls where the grammar must be reached.
  CompiledConstraint(std::shared_ptr<const VocabularyTables> vocabulary,
                     std::unique_ptr<Grammar> grammar, WriteGrammar write, AnswerOpening opening,
                     bool masks_calls, const MatcherLimits& limits = {});

  const VocabularyTables& vocabulary() const { return *vocabulary_; }
  AnswerOpening opening() const { return opening_; }
  std::vector<std::string>& relaxed() { return relaxed_; }
  // Keeps the account of what `write` holds.
  void KeepSource(std::unique_ptr<ConstraintMemory::Account> source) {
    source_ = std::move(source);
  }
  const std::vector<std::string>& relaxed() const { return relaxed_; }

  // The masks of the phases without a grammar.
  const TokenMask& reasoning_mask() const { return reasoning_mask_; }
  // after_angle: behind a < that begins a line.
  const TokenMask& free_mask(bool after_angle) const {
    return after_angle ? free_mask_after_angle_ : free_mask_;
  }
  const TokenMask& end_mask() const { return end_mask_; }

  // --- Any thread ---
  // Ends the work of compiling. Errors: it was given up (EndError); no text at all is allowed.
  ConstraintResult<void> FinishCompiling();

  // A place in the grammar: what was read, and its state in a core; without a core it is found.
  struct Place {
    std::shared_ptr<ConstraintCore> core{};
    const MatcherState* state = nullptr;
    const ReadText* read = nullptr;
    bool has_moved = false;  // from an exhausted core to another, since the answer began
  };
  // Work in a core, which holds its mutex: sets `to`, if it moves. May be done again in another
  // core.
  using Work =
      std::function<Status(ConstraintCore& core, const MatcherState& from, MatcherState& to)>;
  // The core in which work was done, whose mutex guards the state that it moved to.
  struct Done {
    std::shared_ptr<ConstraintCore> core{};
    MatcherState to{};
    bool has_moved = false;
  };
  // Does work at a place. Errors: those of the work; kResourceExhausted; kUnavailable: `pace`,
  // which may be null, has ended it.
  Result<Done> Do(const Place& place, const Work& work, WorkPace* pace);

 private:
  void MakeMasks(bool masks_calls);
  std::shared_ptr<ConstraintCore> MakeCore(std::unique_ptr<Grammar> grammar) const;
  std::shared_ptr<ConstraintCore> Current() const;
  void Replace(std::shared_ptr<ConstraintCore> core);
  // The ways in which work in a core can end.
  enum class Tried {
    kDone,
    kExhausted,  // the core
    kLost,       // the core
    kStopped,    // by the pace
  };
  Tried TryIn(const std::shared_ptr<ConstraintCore>& core, const Place& place, const Work& work,
              WorkPace* pace, Done& done, Status& status) const;

  const std::shared_ptr<const VocabularyTables> vocabulary_;
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
  std::shared_ptr<ConstraintCore> current_;  // guarded
};

// A constraint of one request: what is compiled, and how its prompt ends. `prefill`: see
// ConstraintSpec. Errors: kInvalidArgument: no answer begins with the prefill; as
// CompiledConstraint::Do.
Result<std::shared_ptr<const Constraint>> MakeConstraint(
    std::shared_ptr<CompiledConstraint> compiled, bool in_reasoning, std::string_view prefill,
    WorkPace* pace);

}  // namespace fathom
