#include "api/common/completion_prompt.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "chat/literals.h"

namespace fathom::api {
namespace {

Result<std::vector<Token>> EncodeText(const CompletionPrompt& prompt, const Tokenizer& tokenizer,
                                      const StopFunction& stop) {
  if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) return *tokens;
  Result<std::vector<Token>> tokens =
      tokenizer.Encode(std::get<std::string>(prompt), SpecialTokens::kParse, stop);
  if (!tokens) return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  return tokens;
}

// Puts the tokens of the gap around and between both texts; the model fills the gap after the last
// token.
Result<std::vector<Token>> FillInTheMiddle(std::vector<Token> prefix, std::string_view suffix,
                                           const Tokenizer& tokenizer, const StopFunction& stop) {
  const std::optional<Token> begin = tokenizer.Find(kFimBegin);
  const std::optional<Token> hole = tokenizer.Find(kFimHole);
  const std::optional<Token> end = tokenizer.Find(kFimEnd);
  if (!begin || !hole || !end) {
    return MakeError(ErrorCode::kUnsupported, "suffix: this model has no tokens for it");
  }
  const Result<std::vector<Token>> after = tokenizer.Encode(suffix, SpecialTokens::kParse, stop);
  if (!after) return MakeError(after.error().code, "suffix: {}", after.error().message);
  std::vector<Token> tokens = std::move(prefix);
  tokens.insert(tokens.begin(), *begin);
  tokens.push_back(*hole);
  tokens.insert(tokens.end(), after->begin(), after->end());
  tokens.push_back(*end);
  return tokens;
}

// Returns a lower bound of the tokens of the texts, without encoding them.
std::int64_t LeastTokens(const CompletionPrompt& prompt, const CompletionOptions& options,
                         const Tokenizer& tokenizer) {
  const auto* text = std::get_if<std::string>(&prompt);
  return tokenizer.LeastTokens((text == nullptr ? 0 : text->size()) +
                               (options.suffix ? options.suffix->size() : 0));
}

}  // namespace

ApiResult<EncodedCompletion> EncodeCompletion(const CompletionPrompt& prompt,
                                              const CompletionOptions& options,
                                              const ApiModel& model, const StopFunction& stop) {
  const std::int64_t n_least = LeastTokens(prompt, options, *model.tokenizer);
  if (n_least > model.limits.max_context) {
    ApiError error = ContextLengthError(n_least, model.limits.max_context, /*is_least=*/true);
    error.param = "prompt";
    return tl::unexpected<ApiError>(std::move(error));
  }
  Result<std::vector<Token>> tokens = EncodeText(prompt, *model.tokenizer, stop);
  if (!tokens) return UnexpectedApiError(tokens.error());
  const bool begins = !tokens->empty() && tokens->front() == model.bos;
  if (options.suffix) {
    if (begins) tokens->erase(tokens->begin());
    tokens = FillInTheMiddle(*std::move(tokens), *options.suffix, *model.tokenizer, stop);
    if (!tokens) return UnexpectedApiError(tokens.error());
    if (begins) tokens->insert(tokens->begin(), model.bos);
  }
  const bool is_text = std::holds_alternative<std::string>(prompt);
  const std::size_t n_added = is_text && options.add_special_tokens && !begins ? 1 : 0;
  tokens->insert(tokens->begin(), n_added, model.bos);
  return EncodedCompletion{.tokens = *std::move(tokens), .n_added = n_added};
}

}  // namespace fathom::api
