// The responses of Anthropic's messages, whole and streamed. docs/spec/serving.md section 9.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/common/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeMessagesFormat();

// The response to POST /v1/messages/count_tokens.
std::string CountTokensBody(std::int64_t input_tokens);

}  // namespace fathom
