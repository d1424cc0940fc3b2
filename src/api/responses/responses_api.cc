#include "api/responses/responses_api.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "api/openai/openai_api.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_json.h"
#include "api/responses/responses_request.h"
#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

tl::unexpected<ApiError> Unknown(std::string_view id) {
  return tl::unexpected<ApiError>(
      ApiError{.status = 404,
               .message = fmt::format("the response \"{}\" is not stored, or not any more",
                                      ShortenedUtf8(id, kQuotedBytes)),
               .type = "invalid_request_error",
               .param = "id",
               .code = "not_found"});
}

ApiResult<std::string> Show(const ApiModel& model, std::string_view id, std::string_view) {
  std::optional<std::string> response =
      model.responses ? model.responses->FindResponse(id) : std::nullopt;
  if (!response) return Unknown(id);
  return *std::move(response);
}

ApiResult<std::string> Delete(const ApiModel& model, std::string_view id, std::string_view) {
  if (!model.responses || !model.responses->Remove(id)) return Unknown(id);
  return WriteJson({{"id", id}, {"object", "response"}, {"deleted", true}});
}

// Only background responses can be cancelled by id, and this server has none: a client cancels by
// closing its connection. The error has the words of OpenAI.
ApiResult<std::string> Cancel(const ApiModel& model, std::string_view id, std::string_view) {
  if (!model.responses || !model.responses->FindResponse(id)) return Unknown(id);
  return tl::unexpected<ApiError>(ApiError{.status = 400,
                                           .message = "Cannot cancel a synchronous response.",
                                           .type = "invalid_request_error"});
}

ApiResult<ApiCall> Prepare(const ApiBody& body, const ApiModel& model) {
  Result<ResponsesRequest> request =
      ParseResponsesRequest(body, model.limits, model.defaults, model.responses);
  if (!request) return UnexpectedApiError(request.error());
  ApiResult<ApiCall> call = PrepareChat(kResponses, std::move(request->chat), model);
  if (call) call->context = std::move(request->context);
  return call;
}

constexpr std::string_view kResponsesPaths[] = {"/v1/responses", "/responses"};
constexpr ApiRoute kResponsesRoutes[] = {
    {"GET", "/v1/responses/{id}", Show},
    {"DELETE", "/v1/responses/{id}", Delete},
    {"POST", "/v1/responses/{id}/cancel", Cancel},
};

}  // namespace

const Api kResponses = {
    .paths = kResponsesPaths,
    .routes = kResponsesRoutes,
    .prepare = Prepare,
    .make_format = MakeResponsesFormat,
    .error = OpenAiError,
    .store =
        [](const ApiAnswer& answer) {
          if (answer.model().responses) StoreResponse(answer, *answer.model().responses);
        },
    .model_card = OpenAiModelCard,
    .model_list = OpenAiModelList,
    .always_streams_arguments = true,  // a response is the same whole and streamed
    .answer_id = "resp_",
    .prompt_field = "input",
    .effort_field = "reasoning.effort",
};

}  // namespace fathom
