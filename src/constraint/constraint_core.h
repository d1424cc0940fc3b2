// ConstraintCore: a grammar with what was found of it, which answers share: automaton, masks.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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
class ConstraintCore {
 public:
  // The grammar is complete.
  ConstraintCore(std::shared_ptr<const VocabularyTables> vocabulary,
                 std::unique_ptr<Grammar> grammar, const MatcherLimits& limits);

  // Holds the mutex. Tells `pace`, which may be null, if that takes long, and frees states.
  std::unique_lock<std::timed_mutex> Lock(WorkPace* pace = nullptr);
  // Holds the mutex if nobody does.
  std::optional<std::unique_lock<std::timed_mutex>> TryLock();
  // Frees a state, perhaps later. Any thread, without the mutex.
  void Free(MatcherState state);
  bool IsUnsatisfiable() const { return matcher_.IsUnsatisfiable(); }
  // True once all answers together have made as many states of the automaton as it may have, or a
  // pace has ended work: then no result is to be used any more.
  bool IsExhausted() const { return matcher_.IsExhausted(); }

  // Sets `to` to the state behind what was read; null: in front of the grammar. Dead if the text
  // may not begin so. Error (kResourceExhausted): a limit of the work.
  Status ReadAgain(const ReadText* last, MatcherState& to);
  // Sets `to` to the state behind a text. Errors: kInvalidArgument: the grammar does not allow it;
  // kResourceExhausted.
  Status Read(const MatcherState& from, std::string_view text, MatcherState& to);
  // As Read, for a token.
  Status Advance(const MatcherState& from, Token token, MatcherState& to);
  Result<std::shared_ptr<const MaskBuilder::Mask>> Mask(const MatcherState& state);
  WorkMeter& meter() { return grammar_->meter; }
  std::size_t memory() const { return grammar_->meter.n_bytes() + masks_.memory(); }

  static tl::unexpected<Error> TooComplexError();

 private:
  MatcherState BehindOpener();

  const std::shared_ptr<const VocabularyTables> vocabulary_;
  const std::unique_ptr<Grammar> grammar_;
  std::timed_mutex mutex_;
  std::mutex freed_mutex_;
  std::vector<MatcherState> freed_;  // guarded by freed_mutex_
  Matcher matcher_;
  MaskBuilder masks_;
};

// A token that no text may have here.
tl::unexpected<Error> TokenNotAllowed(Token token);

}  // namespace fathom
