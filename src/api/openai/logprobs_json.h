// Log probabilities in the two formats that OpenAI clients know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "api/common/answer_collector.h"
#include "base/utf8.h"
#include "json/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Both classes write the tokens of one choice whose section is known and that are not written yet,
// so that each chunk of a stream gets the tokens of its text, and a whole response all of them. The
// result is null if no log probabilities were requested. All calls pass the same `answer`.

// For a chat: {"content": [...], "reasoning_content": [...]}, an entry {"token", "logprob",
// "bytes", "top_logprobs"} for each token of visible content and of the reasoning, none for markup.
class ChatLogprobs {
 public:
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 bool include_reasoning, const Tokenizer& tokenizer);

 private:
  std::size_t n_written_ = 0;  // tokens, including those without an entry
};

// For a completion: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, with offsets in
// characters of the answer's text.
class CompletionLogprobs {
 public:
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 const Tokenizer& tokenizer);

 private:
  std::size_t n_written_ = 0;
  std::size_t n_characters_ = 0;  // characters of the written tokens
  Utf8Stream utf8_;
};

}  // namespace fathom
