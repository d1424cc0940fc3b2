#include "constraint/constraint_core.h"

#include <utility>

namespace fathom {
namespace {

constexpr std::size_t kMaxMaskBytes = std::size_t{32} << 20;

TokenMask ToMask(TokenSet tokens) {
  const std::int64_t n = tokens.size();
  return {std::make_shared<const std::vector<std::uint64_t>>(tokens.words()), n};
}

}  // namespace

ConstraintCore::ConstraintCore(std::shared_ptr<const VocabularyTables> vocabulary,
                               std::unique_ptr<Grammar> grammar, AnswerOpening opening,
                               bool masks_calls)
    : vocabulary_(std::move(vocabulary)),
      grammar_(std::move(grammar)),
      opening_(opening),
      matcher_(*grammar_),
      masks_(matcher_, *vocabulary_, kMaxMaskBytes) {
  MakeMasks(masks_calls);
}

// docs/spec/constrained.md 1.3 and 2.5.
void ConstraintCore::MakeMasks(bool masks_calls) {
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

tl::unexpected<Error> ConstraintCore::TooComplexError() {
  return MakeError(ErrorCode::kResourceExhausted,
                   "constraint_too_complex: the grammar can be read in too many ways here");
}

Status ConstraintCore::Read(const MatcherState& from, std::string_view text, MatcherState& to) {
  to = from;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    MatcherState next;
    matcher_.Reset();
    if (!matcher_.Step(to, byte, next)) {
      if (matcher_.TooComplex()) return TooComplexError();
      return MakeError(ErrorCode::kInvalidArgument,
                       "expected text that the constraint allows, found byte {} (0x{:02x})", i,
                       byte);
    }
    to = std::move(next);
  }
  return {};
}

MatcherState ConstraintCore::BehindOpener() {
  matcher_.Reset();
  const MatcherState begin = matcher_.Begin();
  MatcherState behind_angle;
  MatcherState state;
  const std::optional<Token> dsml = vocabulary_->meaningful().dsml;
  if (!dsml || !matcher_.Step(begin, '<', behind_angle) ||
      !matcher_.StepToken(behind_angle, static_cast<std::uint32_t>(*dsml), false, state)) {
    state.Clear();
  }
  return state;
}

}  // namespace fathom
