// Finished answers -> the JSON of a response. spec/serving.md section 6.
#ifndef FATHOM_API_RESPONSE_JSON_H_
#define FATHOM_API_RESPONSE_JSON_H_

#include <cstdint>
#include <span>
#include <string>

#include "api/answer_collector.h"
#include "api/api_answer.h"

namespace fathom {

// On one line. `choices` in the order of their index; all finished, without errors. The log
// probabilities of a chat are those of the visible content and, apart, of the reasoning; markup has
// none.
std::string ChatCompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                               const AnswerOptions& options, const Usage& usage,
                               const Tokenizer& tokenizer);
std::string CompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                           const Usage& usage, const Tokenizer& tokenizer);

}  // namespace fathom

#endif  // FATHOM_API_RESPONSE_JSON_H_
