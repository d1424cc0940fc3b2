// The responses of OpenAI's completions, whole and streamed. docs/spec/serving.md section 6.
#pragma once

#include <memory>

#include "api/common/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeCompletionFormat();

}  // namespace fathom
