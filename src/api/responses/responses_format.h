// The answers of POST /v1/responses.
#pragma once

#include <memory>

#include "api/common/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeResponsesFormat();

}  // namespace fathom
