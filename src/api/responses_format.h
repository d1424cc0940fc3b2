// The answers of POST /v1/responses.
#ifndef FATHOM_API_RESPONSES_FORMAT_H_
#define FATHOM_API_RESPONSES_FORMAT_H_

#include <memory>

#include "api/answer_format.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeResponsesFormat();

}  // namespace fathom

#endif  // FATHOM_API_RESPONSES_FORMAT_H_
