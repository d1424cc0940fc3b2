#include "api/responses/responses_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/common/query_reader.h"
#include "api/openai/openai_api.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_events.h"
#include "api/responses/responses_json.h"
#include "api/responses/responses_request.h"
#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

tl::unexpected<ApiError> Unknown(std::string_view id) {
  return tl::unexpected(
      MakeApiError(404, "not_found",
                   fmt::format("the response \"{}\" is not stored, or not any more",
                               ShortenedUtf8(id, kQuotedBytes)),
                   "id"));
}

ApiResult<ApiReply> Show(const ApiModel& model, const ApiRouteRequest& request) {
  std::optional<std::string> response =
      model.responses ? model.responses->FindResponse(request.id) : std::nullopt;
  if (!response) return Unknown(request.id);
  QueryReader query(request.query);
  const bool streams = query.Flag("stream");
  const std::int64_t after = query.Integer("starting_after", {.low = 0}, -1);
  query.CheckList("include", KnownIncludes());  // includes exactly the stored data
  if (query.error()) return UnexpectedApiError(*query.error());
  if (!streams) return ApiReply{.body = *std::move(response)};
  const Result<JsonValue> json = ParseJson(*response);
  if (!json) return UnexpectedApiError(json.error());
  return ApiReply{.body = ReplayEvents(*json, after + 1),
                  .content_type = "text/event-stream; charset=utf-8"};
}

ApiResult<ApiReply> Delete(const ApiModel& model, const ApiRouteRequest& request) {
  if (!model.responses || !model.responses->Remove(request.id)) return Unknown(request.id);
  return ApiReply{.body =
                      WriteJson({{"id", request.id}, {"object", "response"}, {"deleted", true}})};
}

// Only background responses can be cancelled by id, and this server has none: a client cancels by
// closing its connection. The error has OpenAI's words.
ApiResult<ApiReply> Cancel(const ApiModel& model, const ApiRouteRequest& request) {
  if (!model.responses || !model.responses->FindResponse(request.id)) return Unknown(request.id);
  return tl::unexpected(MakeApiError(400, "", "Cannot cancel a synchronous response."));
}

ApiResult<ApiReply> ListInput(const ApiModel& model, const ApiRouteRequest& request) {
  std::optional<std::vector<ResponseItem>> items =
      model.responses ? model.responses->FindInput(request.id) : std::nullopt;
  if (!items) return Unknown(request.id);
  QueryReader query(request.query);
  const std::string order = query.OneOf("order", {"desc", "asc"});
  const std::string after = query.Find("after").value_or("");
  const std::int64_t limit = query.Integer("limit", {.low = 1, .high = 100}, 20);
  if (query.error()) return UnexpectedApiError(*query.error());
  if (order == "desc") std::reverse(items->begin(), items->end());
  if (!after.empty()) {
    const auto found = std::find_if(items->begin(), items->end(),
                                    [&](const ResponseItem& item) { return item.id == after; });
    if (found == items->end()) {
      return tl::unexpected(
          MakeApiError(404, "not_found",
                       fmt::format("after: expected the id of an item of this list, found {}",
                                   PythonJsonString(ShortenedUtf8(after, kQuotedBytes))),
                       "after"));
    }
    items->erase(items->begin(), found + 1);
  }
  const bool has_more = std::ssize(*items) > limit;
  if (has_more) items->resize(static_cast<std::size_t>(limit));
  JsonValue data = JsonValue::Array();
  for (const ResponseItem& item : *items) data.push_back(InputItemJson(item));
  const auto id_of = [](const ResponseItem& item) { return JsonValue(item.id); };
  return ApiReply{.body =
                      WriteJson({{"object", "list"},
                                 {"data", std::move(data)},
                                 {"first_id", items->empty() ? JsonValue() : id_of(items->front())},
                                 {"last_id", items->empty() ? JsonValue() : id_of(items->back())},
                                 {"has_more", has_more}})};
}

// The body has the form of a request for a response.
ApiResult<ApiReply> CountInput(const ApiModel& model, const ApiRouteRequest& request) {
  Result<ResponsesRequest> parsed =
      ParseResponsesRequest(request.body, model.limits, model.defaults, model.responses);
  if (!parsed) return UnexpectedApiError(parsed.error());
  const ApiResult<std::int64_t> count =
      CountPromptTokens(std::move(parsed->chat), model, request.body.is_abandoned);
  if (!count) return tl::unexpected<ApiError>(count.error());
  return ApiReply{.body =
                      WriteJson({{"object", "response.input_tokens"}, {"input_tokens", *count}})};
}

// Without this route, the path would mean the response with the id "compact".
ApiResult<ApiReply> Compact(const ApiModel&, const ApiRouteRequest&) {
  return tl::unexpected(MakeApiError(
      404, "not_found",
      "this server does not compact conversations; clients can ask the model for a summary"));
}

// Returns a stream with a failed response. Codex detects a full context by the code of such a
// response, and shows a status of 400 as raw JSON.
ApiCall RefusedStream(const GenerationFields& fields, ApiError error, const ApiModel& model) {
  ApiCall call = StartCall(kResponses, fields, model);
  call.requests.push_back({.sampling = fields.sampling});
  call.refusal = std::move(error);
  return call;
}

ApiResult<ApiCall> Prepare(const ApiBody& body, const ApiModel& model) {
  Result<ResponsesRequest> request =
      ParseResponsesRequest(body, model.limits, model.defaults, model.responses);
  if (!request) return UnexpectedApiError(request.error());
  const GenerationFields& generation = request->chat.generation;
  const GenerationFields fields = {
      .model = generation.model, .sampling = generation.sampling, .stream = generation.stream};
  ApiResult<ApiCall> call =
      PrepareChat(kResponses, std::move(request->chat), model, body.is_abandoned);
  if (!call && call.error().overflow && fields.stream) {
    call = RefusedStream(fields, std::move(call.error()), model);
  }
  if (call) call->context = std::move(request->context);
  return call;
}

constexpr std::string_view kResponsesPaths[] = {"/v1/responses", "/responses"};
constexpr ApiRoute kResponsesRoutes[] = {
    {"GET", "/v1/responses/{id}", Show},
    {"DELETE", "/v1/responses/{id}", Delete},
    {"POST", "/v1/responses/{id}/cancel", Cancel},
    {"GET", "/v1/responses/{id}/input_items", ListInput},
    {"POST", "/v1/responses/input_tokens", CountInput},
    {"POST", "/v1/responses/compact", Compact},
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
    .always_streams_arguments = true,  // a response is equal whole and streamed
    .answer_id = "resp_",
    .prompt_field = "input",
};

}  // namespace fathom::api
