// The responses of OpenAI's chat completions, whole and streamed. spec/serving.md section 6.
#ifndef FATHOM_API_CHAT_FORMAT_H_
#define FATHOM_API_CHAT_FORMAT_H_

#include <memory>

#include "api/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeChatFormat();

}  // namespace fathom

#endif  // FATHOM_API_CHAT_FORMAT_H_
