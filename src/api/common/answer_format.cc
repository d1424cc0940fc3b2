#include "api/common/answer_format.h"

#include "api/anthropic/messages_error.h"
#include "api/anthropic/messages_format.h"
#include "api/common/sse.h"
#include "api/openai/chat_format.h"
#include "api/openai/completion_format.h"
#include "api/responses/responses_format.h"
#include "base/check.h"
#include "json/json_writer.h"

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
      return MakeMessagesFormat();
  }
  Check(false, "an endpoint without a format");
  return nullptr;
}

ApiReply WholeReply(const ApiAnswer& answer) {
  const std::optional<ApiError> error = answer.error();
  if (error) return ErrorReply(answer.call().endpoint, *error);
  return {.status = 200, .body = MakeAnswerFormat(answer)->Whole(answer)};
}

ApiReply ErrorReply(Endpoint endpoint, const ApiError& error) {
  const bool is_message = endpoint == Endpoint::kMessages;
  return {.status = is_message ? MessagesStatus(error) : error.status,
          .body = ErrorBody(endpoint, error)};
}

std::string ErrorBody(Endpoint endpoint, const ApiError& error) {
  return endpoint == Endpoint::kMessages ? WriteJson(MessagesErrorJson(error)) : ToJson(error);
}

}  // namespace fathom
