// OpenAI's Responses API. docs/spec/serving.md section 10.
#pragma once

#include <memory>

#include "api/common/api.h"

namespace fathom::api {

extern const Api kResponses;

// Writes the responses, whole and streamed (responses_format.cc).
std::unique_ptr<AnswerFormat> MakeResponsesFormat();

}  // namespace fathom::api
