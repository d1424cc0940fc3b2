#include "api/prompt_tokens.h"

namespace fathom {

Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::vector<TextSpan> spans;
  spans.reserve(prompt.spans.size());
  for (const PromptSpan& span : prompt.spans) {
    spans.push_back({.text = span.text, .trusted = span.trusted});
  }
  return tokenizer.Encode(spans);
}

}  // namespace fathom
