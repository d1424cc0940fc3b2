// Log probabilities in the two forms that OpenAI clients know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "api/common/answer_collector.h"
#include "api/common/token_sections.h"
#include "base/utf8.h"
#include "json/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Both write those tokens of one choice whose section is known and that they have not written yet,
// so that each chunk of a stream gets those of its text, and a whole response all of them. null if
// none were asked for. `answer` is the same one in all calls.

// Of a chat: {"content": [...], "reasoning_content": [...]}, an entry per token of visible content
// and of the reasoning: {"token", "logprob", "bytes", "top_logprobs"}. Markup has none.
class ChatLogprobs {
 public:
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 bool include_reasoning, const Tokenizer& tokenizer);

 private:
  std::size_t n_written_ = 0;  // tokens, also those that have no entry
};

// Of a completion: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, offsets in
// characters of the answer's text.
class CompletionLogprobs {
 public:
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 const Tokenizer& tokenizer);

 private:
  std::size_t n_written_ = 0;
  std::size_t n_characters_ = 0;  // of the tokens written
  Utf8Stream utf8_;
};

}  // namespace fathom
