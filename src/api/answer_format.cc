#include "api/answer_format.h"

#include "api/chat_format.h"
#include "api/completion_format.h"
#include "api/responses_format.h"
#include "base/check.h"

namespace fathom {

std::unique_ptr<AnswerFormat> MakeAnswerFormat(const ApiAnswer& answer) {
  switch (answer.call().endpoint) {
    case Endpoint::kChatCompletions:
      return MakeChatFormat();
    case Endpoint::kCompletions:
      return MakeCompletionFormat();
    case Endpoint::kResponses:
      return MakeResponsesFormat();
    case Endpoint::kMessages:
      break;
  }
  Check(false, "an endpoint without a format");
  return nullptr;
}

ApiReply WholeReply(const ApiAnswer& answer) {
  const std::optional<ApiError> error = answer.error();
  if (error) {
    return {.status = error->status, .body = ErrorBody(answer.call().endpoint, *error)};
  }
  return {.status = 200, .body = MakeAnswerFormat(answer)->Whole(answer)};
}

std::string ErrorBody(Endpoint, const ApiError& error) { return ToJson(error); }

}  // namespace fathom
