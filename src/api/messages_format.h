// The responses of Anthropic's messages, whole and streamed. spec/serving.md section 9.
#ifndef FATHOM_API_MESSAGES_FORMAT_H_
#define FATHOM_API_MESSAGES_FORMAT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "api/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeMessagesFormat();

// The response to POST /v1/messages/count_tokens.
std::string CountTokensBody(std::int64_t input_tokens);

}  // namespace fathom

#endif  // FATHOM_API_MESSAGES_FORMAT_H_
