// ConstraintCore: a compiled grammar with everything that answers share: automaton, masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraint/constraint.h"
#include "constraint/mask_builder.h"
#include "constraint/matcher.h"
#include "constraint/vocabulary.h"

namespace fathom {

// How an answer may begin.
enum class AnswerOpening {
  kGrammar,  // with the grammar, which is the whole answer
  kFree,     // with text, in which a line that begins with <｜DSML｜ begins the grammar
};

class ConstraintCore {
 public:
  // The grammar is complete. masks_reasoning: the grammar must be reached, so the reasoning may not
  // end the answer. masks_calls: nor may it begin a block of calls.
  ConstraintCore(std::shared_ptr<const VocabularyTables> vocabulary,
                 std::unique_ptr<Grammar> grammar, AnswerOpening opening, bool masks_calls);

  bool IsUnsatisfiable() const { return matcher_.IsUnsatisfiable(); }
  std::vector<std::string>& relaxed() { return relaxed_; }
  const std::vector<std::string>& relaxed() const { return relaxed_; }
  const VocabularyTables& vocabulary() const { return *vocabulary_; }
  AnswerOpening opening() const { return opening_; }

  // The masks of the phases without a grammar.
  const TokenMask& reasoning_mask() const { return reasoning_mask_; }
  // after_angle: behind a < that begins a line.
  const TokenMask& free_mask(bool after_angle) const {
    return after_angle ? free_mask_after_angle_ : free_mask_;
  }
  const TokenMask& end_mask() const { return end_mask_; }

  // --- The mutex must be held for these, and for all that is done with states of the matcher ---
  std::mutex& mutex() { return mutex_; }
  MatcherState Begin() { return matcher_.Begin(); }
  // The state behind < and ｜DSML｜ of a block that text has begun; dead if there is no such block.
  MatcherState BehindOpener();
  // Sets `to` to the state behind a text. Errors: kInvalidArgument: the grammar does not allow it;
  // kResourceExhausted.
  Status Read(const MatcherState& from, std::string_view text, MatcherState& to);
  void Reset() { matcher_.Reset(); }
  std::shared_ptr<const MaskBuilder::Mask> Mask(const MatcherState& state) {
    return masks_.Build(state);
  }
  bool Advance(const MatcherState& state, Token token, MatcherState& to) {
    return masks_.Advance(state, token, to);
  }
  bool TooComplex() const { return matcher_.TooComplex(); }
  static tl::unexpected<Error> TooComplexError();
  std::size_t memory() const { return matcher_.memory() + masks_.memory(); }
  MaskBuilder& masks() { return masks_; }

 private:
  void MakeMasks(bool masks_calls);

  const std::shared_ptr<const VocabularyTables> vocabulary_;
  const std::unique_ptr<Grammar> grammar_;
  const AnswerOpening opening_;
  std::mutex mutex_;
  Matcher matcher_;
  MaskBuilder masks_;
  std::vector<std::string> relaxed_;
  TokenMask reasoning_mask_;
  TokenMask free_mask_;
  TokenMask free_mask_after_angle_;
  TokenMask end_mask_;
};

// A constraint of one request: the core, and how its prompt ends. `prefill`: see ConstraintSpec.
// Error (kInvalidArgument): no answer begins with the prefill.
Result<std::shared_ptr<const Constraint>> MakeConstraint(std::shared_ptr<ConstraintCore> core,
                                                         bool in_reasoning,
                                                         std::string_view prefill);

}  // namespace fathom
