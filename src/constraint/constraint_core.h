// ConstraintCore: a grammar with its automaton and its masks so far, which answers share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/timed_mutex.h"
#include "constraint/constraint_memory.h"
#include "constraint/grammar/grammar.h"
#include "constraint/grammar/matcher.h"
#include "constraint/masks/mask_builder.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::constraint {

// A piece of the text that an answer has read within the grammar, with the pieces before it, so
// that the whole text can be read again. Constant, and shared by all states after it.
struct ReadText {
  enum class Kind {
    kOpener,  // < and ｜DSML｜, which begin a block of calls in free text; only the first piece
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

// The mutex (see Lock) must be held for every method other than Free and TryFree, and for every use
// of a state of the matcher.
class ConstraintCore : public FreeableMemory {
 public:
  // The grammar must be complete. FinishCompiling must be called before any other work.
  ConstraintCore(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                 std::unique_ptr<Grammar> grammar, const MatcherLimits& limits);

  // Locks the mutex, and frees the states that Free has postponed. During a long wait, `pace`,
  // which may be null, is told of the wait and asked whether to go on. The result is not locked if
  // the pace ends the wait.
  std::unique_lock<TimedMutex> Lock(WorkPace* pace = nullptr);
  // Frees a state, perhaps later. Any thread, without the mutex.
  void Free(MatcherState state);
  // Frees the grammar, the automaton and all masks, after which the core is lost. Returns false if
  // another thread holds the mutex.
  bool TryFree() override;
  bool IsUnsatisfiable() const { return parts_->matcher.IsUnsatisfiable(); }
  // True once the memory was taken for other work, or a pace has ended work: the results of the
  // core must be found again in another one. Only Lock and Free may be called then.
  bool IsLost() const {
    return parts_ == nullptr || parts_->grammar->meter.end() == WorkMeter::End::kStopped;
  }
  // True once all answers together have made as many states of the automaton as it may have: then
  // no result may be used any more.
  bool IsExhausted() const { return parts_->matcher.IsExhausted(); }

  // Reads the pieces up to `last` again, and sets `to` to the state after them; null: the state
  // before the text. `to` is dead if the text may not begin so. Error (kResourceExhausted): a limit
  // of the work.
  Status ReadAgain(const ReadText* last, MatcherState& to);
  // Sets `to` to the state after a text. Errors: kInvalidArgument: the grammar does not allow the
  // text; kResourceExhausted.
  Status Read(const MatcherState& from, std::string_view text, MatcherState& to);
  // As Read, for a token.
  Status Advance(const MatcherState& from, Token token, MatcherState& to);
  Result<std::shared_ptr<const MaskBuilder::Mask>> Mask(const MatcherState& state);
  // Lets `owner` free the memory between two pieces of work, where other work needs it.
  void SetOwner(std::weak_ptr<FreeableMemory> owner) {
    parts_->grammar->meter.SetOwner(std::move(owner));
  }
  // Begins and ends work; see WorkMeter.
  void BeginWork(WorkPace* pace) { parts_->grammar->meter.BeginWork(pace); }
  void EndWork() { parts_->grammar->meter.EndWork(parts_->masks.memory()); }
  // Finds the state before the text, which is the last part of compiling. From then on the limits
  // of an automaton apply.
  void FinishCompiling();
  const WorkMeter& meter() const { return parts_->grammar->meter; }

  static tl::unexpected<Error> TooComplexError();

 private:
  struct Parts {
    Parts(std::unique_ptr<Grammar> of, const ConstraintVocabulary& vocabulary,
          const MatcherLimits& limits);
    const std::unique_ptr<Grammar> grammar;
    Matcher matcher;
    MaskBuilder masks;
  };
  Matcher& matcher() { return parts_->matcher; }
  MatcherState AfterOpener();

  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const WorkLimits limits_;  // the limits of the automaton
  TimedMutex mutex_;
  std::mutex freed_mutex_;
  std::vector<MatcherState> freed_;     // guarded by freed_mutex_
  std::atomic<bool> has_freed_{false};  // true if freed_ is not empty; written under freed_mutex_
  std::unique_ptr<Parts> parts_;        // guarded by mutex_; null once freed
};

// The error for a token that the grammar does not allow.
tl::unexpected<Error> TokenNotAllowed(Token token);

}  // namespace fathom::constraint
