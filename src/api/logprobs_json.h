// Log probabilities in the two forms that OpenAI clients know.
#ifndef FATHOM_API_LOGPROBS_JSON_H_
#define FATHOM_API_LOGPROBS_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "api/answer_collector.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Of a chat: {"content": [...], "reasoning_content": [...]}, an entry per token of visible content
// and of the reasoning: {"token", "logprob", "bytes", "top_logprobs"}. null if none were asked for.
nlohmann::ordered_json ChatLogprobs(const CollectedAnswer& answer, bool include_reasoning,
                                    const Tokenizer& tokenizer);

// Of a completion: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, offsets in
// characters of the answer's text. null if none were asked for.
nlohmann::ordered_json CompletionLogprobs(const CollectedAnswer& answer,
                                          const Tokenizer& tokenizer);

}  // namespace fathom

#endif  // FATHOM_API_LOGPROBS_JSON_H_
