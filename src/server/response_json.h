// Finished answers -> the JSON of a response. spec/serving.md section 6.
#ifndef FATHOM_SERVER_RESPONSE_JSON_H_
#define FATHOM_SERVER_RESPONSE_JSON_H_

#include <cstdint>
#include <span>
#include <string>

#include "server/answer_collector.h"
#include "server/api_call.h"

namespace fathom {

// What a response says besides its choices.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970, UTC
  std::string model;
  std::string fingerprint;
};

// Tokens of all prompts and choices.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;      // of the prompts, not computed for this request
  std::int64_t completion_tokens = 0;  // with reasoning
  std::int64_t reasoning_tokens = 0;
};

// On one line. `choices` in the order of their index; all finished, without errors. The log
// probabilities of a chat are those of the visible content and, apart, of the reasoning; markup has
// none.
std::string ChatCompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                               const AnswerOptions& options, const Usage& usage,
                               const Tokenizer& tokenizer);
std::string CompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                           const Usage& usage, const Tokenizer& tokenizer);

}  // namespace fathom

#endif  // FATHOM_SERVER_RESPONSE_JSON_H_
