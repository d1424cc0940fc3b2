#include "api/common/prompt_tokens.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

#include "chat/literals.h"

namespace fathom::api {
namespace {

// Encodes the spans as one text and clears them.
Status AppendText(const Tokenizer& tokenizer, const StopFunction& stop,
                  std::vector<TextSpan>* spans, std::vector<Token>* tokens) {
  const Result<std::vector<Token>> encoded = tokenizer.Encode(*spans, stop);
  if (!encoded) return Unexpected(encoded.error());
  tokens->insert(tokens->end(), encoded->begin(), encoded->end());
  spans->clear();
  return {};
}

void AddToken(const Tokenizer& tokenizer, std::string_view text, std::vector<Token>* tokens) {
  const std::optional<Token> token = tokenizer.Find(text);
  if (token) tokens->push_back(*token);
}

}  // namespace

Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt,
                                        const StopFunction& stop) {
  std::vector<Token> tokens;
  std::vector<TextSpan> text;
  for (const PromptSpan& span : prompt.spans) {
    if (span.tokens.empty()) {
      text.push_back({.text = span.text, .trusted = span.trusted});
      continue;
    }
    const Status status = AppendText(tokenizer, stop, &text, &tokens);
    if (!status) return Unexpected(status.error());
    tokens.insert(tokens.end(), span.tokens.begin(), span.tokens.end());
  }
  const Status status = AppendText(tokenizer, stop, &text, &tokens);
  if (!status) return Unexpected(status.error());
  return tokens;
}

std::int64_t LeastTokens(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::size_t n_bytes = 0;
  std::int64_t n_tokens = 0;
  for (const PromptSpan& span : prompt.spans) {
    n_bytes += span.text.size();
    n_tokens += std::ssize(span.tokens);
  }
  return n_tokens + tokenizer.LeastTokens(n_bytes);
}

std::vector<Token> TurnTokens(const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  for (const std::string_view text : kTurnTokens) AddToken(tokenizer, text, &tokens);
  return tokens;
}

void AddChatTokens(const Tokenizer& tokenizer, SamplingParameters* sampling) {
  const std::vector<Token> turns = TurnTokens(tokenizer);
  if (!sampling->ignore_eos) {
    sampling->stop_tokens.insert(sampling->stop_tokens.end(), turns.begin(), turns.end());
  }
  std::vector<Token>& silent = sampling->silent_tokens;
  silent.insert(silent.end(), turns.begin(), turns.end());
  for (const std::string_view text : kControlTokens) AddToken(tokenizer, text, &silent);
  for (const TaskToken& task : kTaskTokens) AddToken(tokenizer, task.token, &silent);
}

}  // namespace fathom::api
