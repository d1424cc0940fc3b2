#include "measure/constrain/constraint_check.h"

#include <utility>

#include "base/this_thread.h"

namespace fathom::measure {

std::string_view ConstraintCheck::Outcome() const {
  if (!error) return "ok";
  if (error->code == ConstraintErrorCode::kUnsupportedSchema) return "unsupported";
  if (error->code == ConstraintErrorCode::kUnsatisfiableSchema) return "unsatisfiable";
  if (error->code == ConstraintErrorCode::kTooLarge) return "too_large";
  return "invalid";
}

ConstraintChecker::ConstraintChecker(const Tokenizer& tokenizer, std::int64_t vocab_size, Token eos)
    : tokenizer_(tokenizer),
      eos_(eos),
      vocabulary_(
          std::make_shared<ConstraintVocabulary>(tokenizer, vocab_size, std::vector<Token>{eos})) {}

ConstraintCheck ConstraintChecker::Compile(const ContentConstraint& content) {
  ConstraintCheck check;
  ConstraintCompiler compiler(vocabulary_);
  const ThreadWatch watch;
  ConstraintResult<std::shared_ptr<const Constraint>> constraint =
      compiler.Compile({.content = content});
  check.compile_us = 1e6 * watch.seconds();
  constraint_ = nullptr;
  if (!constraint) {
    check.error = std::move(constraint.error());
    return check;
  }
  constraint_ = *std::move(constraint);
  check.relaxed = constraint_->relaxed();
  return check;
}

TextResult ConstraintChecker::Test(std::string_view text) const {
  TextResult result;
  const Result<std::vector<Token>> tokens = tokenizer_.Encode(text, SpecialTokens::kPlainText);
  if (!tokens) {
    result.error = tokens.error().message;
    return result;
  }
  ConstraintState state = constraint_->Begin();
  std::int64_t byte = 0;
  for (std::size_t i = 0; i <= tokens->size(); ++i) {
    const Token token = i < tokens->size() ? (*tokens)[i] : eos_;
    const ThreadWatch watch;
    const Result<TokenMask> mask = constraint_->Mask(state);
    result.mask_us.push_back(1e6 * watch.seconds());
    if (!mask || !mask->Allows(token)) {
      if (!mask) result.error = mask.error().message;
      result.refused_byte = byte;
      return result;
    }
    if (i == tokens->size()) break;
    Result<ConstraintState> next = constraint_->Advance(state, token);
    if (!next) {
      result.error = next.error().message;
      result.refused_byte = byte;
      return result;
    }
    state = *std::move(next);
    byte += static_cast<std::int64_t>(tokenizer_.TokenBytes(token).size());
  }
  result.accepted = true;
  return result;
}

}  // namespace fathom::measure
