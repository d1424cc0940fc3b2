// ConstraintCore: a grammar with what was found of it, which answers share: automaton, masks.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/timed_mutex.h"
#include "constraint/constraint_memory.h"
#include "constraint/grammar.h"
#include "constraint/mask_builder.h"
#include "constraint/matcher.h"
#include "constraint/vocabulary.h"

namespace fathom {

// A piece of what an answer has read within the grammar, with the pieces before it: enough to read
// all of it again.
// Constant, and shared by the states behind it.
struct ReadText {
  enum class Kind {
    kOpener,  // < and ｜DSML｜, with which a block of calls begins in free text; only as the first
    kToken,
    kText,
  };
  ReadText(std::shared_ptr<const ReadText> text_before, Kind of, Token read, std::string_view bytes)
      : before(std::move(text_before)), kind(of), token(read), text(bytes) {}
  ReadText(const ReadText&) = delete;
  ReadText& operator=(const ReadText&) = delete;
  ~ReadText();

  std::shared_ptr<const ReadText> before;  // null: the beginning of the grammar
  const Kind kind;
  const Token token;       // kToken
  const std::string text;  // kText
};

// The mutex must be held for everything but Free, and for all that is done with states of the
// matcher.
class ConstraintCore : public FreeableMemory {
 public:
  // The grammar is complete; FinishCompiling is called before any other work.
  ConstraintCore(std::shared_ptr<const VocabularyTables> vocabulary,
                 std::unique_ptr<Grammar> grammar, const MatcherLimits& limits);

  // Holds the mutex, and frees states. If that takes long, `pace`, which may be null, is told and
  // asked: not locked if it ends the wait.
  std::unique_lock<TimedMutex> Lock(WorkPace* pace = nullptr);
  // Frees a state, perhaps later. Any thread, without the mutex.
  void Free(MatcherState state);
  // Frees all that was found, unless somebody has the mutex: then the core is lost.
  bool TryFree() override;
  bool IsUnsatisfiable() const { return parts_->matcher.IsUnsatisfiable(); }
  // True once the memory was needed for others, or a pace has ended work: what the core knows must
  // be found again in another one. Nothing but Lock and Free may be called then.
  bool IsLost() const {
    return parts_ == nullptr || parts_->grammar->meter.end() == WorkMeter::End::kStopped;
  }
  // True once all answers together have made as many states of the automaton as it may have: then
  // no result is to be used any more.
  bool IsExhausted() const { return parts_->matcher.IsExhausted(); }

  // Sets `to` to the state behind what was read; null: in front of the grammar. Dead if the text
  // may not begin so. Error (kResourceExhausted): a limit of the work.
  Status ReadAgain(const ReadText* last, MatcherState& to);
  // Sets `to` to the state behind a text. Errors: kInvalidArgument: the grammar does not allow it;
  // kResourceExhausted.
  Status Read(const MatcherState& from, std::string_view text, MatcherState& to);
  // As Read, for a token.
  Status Advance(const MatcherState& from, Token token, MatcherState& to);
  Result<std::shared_ptr<const MaskBuilder::Mask>> Mask(const MatcherState& state);
  // Has the memory freed between the work where others need it.
  void SetOwner(std::weak_ptr<FreeableMemory> owner) {
    parts_->grammar->meter.SetOwner(std::move(owner));
  }
  // Brackets work; see WorkMeter.
  void BeginWork(WorkPace* pace) { parts_->grammar->meter.BeginWork(pace); }
  void EndWork() { parts_->grammar->meter.EndWork(parts_->masks.memory()); }
  // Finds the state in front of the text as the last part of compiling; from then on the limits are
  // those of an automaton.
  void FinishCompiling();
  const WorkMeter& meter() const { return parts_->grammar->meter; }

  static tl::unexpected<Error> TooComplexError();

 private:
  struct Parts {
    Parts(std::unique_ptr<Grammar> of, const VocabularyTables& vocabulary,
          const MatcherLimits& limits);
    const std::unique_ptr<Grammar> grammar;
    Matcher matcher;
    MaskBuilder masks;
  };
  Matcher& matcher() { return parts_->matcher; }
  MatcherState BehindOpener();

  const std::shared_ptr<const VocabularyTables> vocabulary_;
  const WorkLimits limits_;  // of the automaton
  TimedMutex mutex_;
  std::mutex freed_mutex_;
  std::vector<MatcherState> freed_;     // guarded by freed_mutex_
  std::atomic<bool> has_freed_{false};  // written under freed_mutex_: freed_ is not empty
  std::unique_ptr<Parts> parts_;        // guarded by mutex_; null once freed
};

// A token that no text may have here.
tl::unexpected<Error> TokenNotAllowed(Token token);

}  // namespace fathom
