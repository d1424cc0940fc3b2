// Writes log probabilities in the formats that clients of OpenAI and vLLM know.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "api/common/answer_collector.h"
#include "base/utf8.h"
#include "json/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom::api {

// Names tokens in JSON: by their text, or as "token_id:7".
struct TokenNames {
  const Tokenizer& tokenizer;
  bool by_id = false;
  std::string operator()(Token token) const;
};

// Both classes write the tokens of one choice whose section is known and that are not written yet.
// So each chunk of a stream gets the tokens of its text, and a whole response gets all tokens. All
// calls pass the same `answer` object.

// Writes for a chat, or null if no log probabilities were requested: {"content": [...],
// "reasoning_content": [...]}, an entry {"token", "logprob", "bytes", "top_logprobs"} for each
// token of visible content and of the reasoning, and none for markup.
class ChatLogprobs {
 public:
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 bool include_reasoning, const TokenNames& names);

 private:
  std::size_t n_written_ = 0;  // tokens, including tokens without an entry
};

// The tokens of a prompt that is repeated, and the log probabilities of all but the first.
struct ScoredPrompt {
  std::span<const Token> tokens;
  std::span<const TokenLogprobs> logprobs;
};

// Writes for a completion: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, with
// offsets in characters of the text. Omits the text that a stop string cut off. A token that ended
// the answer has no text, but an entry: clients that score a prompt expect one after it.
class CompletionLogprobs {
 public:
  // The first token has no log probability, because no token precedes it. Call before Next.
  void AddPrompt(const ScoredPrompt& prompt, int n_top, const TokenNames& names);
  JsonValue Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                 const TokenNames& names);

 private:
  void Add(Token token, JsonValue logprob, JsonValue top, const TokenNames& names);

  JsonValue json_ = Empty();
  static JsonValue Empty();
  std::size_t n_written_ = 0;
  std::size_t n_characters_ = 0;  // characters of the written tokens
  Utf8Stream utf8_;
};

// Returns [null, {"17": {"logprob", "rank", "decoded_token"}, ...}, ...]: for each token of a
// prompt, the token itself and the `n_top` best tokens at its place, in vLLM's format of
// prompt_logprobs.
JsonValue PromptLogprobsJson(std::span<const TokenLogprobs> logprobs, int n_top,
                             const Tokenizer& tokenizer);

}  // namespace fathom::api
