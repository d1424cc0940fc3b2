// The responses of OpenAI's completions, whole and streamed. spec/serving.md section 6.
#ifndef FATHOM_API_COMPLETION_FORMAT_H_
#define FATHOM_API_COMPLETION_FORMAT_H_

#include <memory>

#include "api/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeCompletionFormat();

}  // namespace fathom

#endif  // FATHOM_API_COMPLETION_FORMAT_H_
