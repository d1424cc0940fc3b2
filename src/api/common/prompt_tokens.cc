#include "api/common/prompt_tokens.h"

namespace fathom {
namespace {

// Encodes the spans as one text and clears them.
Status AppendText(const Tokenizer& tokenizer, std::vector<TextSpan>* spans,
                  std::vector<Token>* tokens) {
  const Result<std::vector<Token>> encoded = tokenizer.Encode(*spans);
  if (!encoded) return Unexpected(encoded.error());
  tokens->insert(tokens->end(), encoded->begin(), encoded->end());
  spans->clear();
  return {};
}

}  // namespace

Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::vector<Token> tokens;
  std::vector<TextSpan> text;
  for (const PromptSpan& span : prompt.spans) {
    if (span.tokens.empty()) {
      text.push_back({.text = span.text, .trusted = span.trusted});
      continue;
    }
    const Status status = AppendText(tokenizer, &text, &tokens);
    if (!status) return Unexpected(status.error());
    tokens.insert(tokens.end(), span.tokens.begin(), span.tokens.end());
  }
  const Status status = AppendText(tokenizer, &text, &tokens);
  if (!status) return Unexpected(status.error());
  return tokens;
}

}  // namespace fathom
