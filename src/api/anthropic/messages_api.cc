#include "api/anthropic/messages_api.h"

#include <fmt/chrono.h>

#include <ctime>

#include "api/anthropic/messages_format.h"
#include "api/anthropic/messages_request.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

ApiResult<ApiReply> CountTokens(const ApiModel& model, const ApiRouteRequest& request) {
  const ApiResult<std::int64_t> count = CountMessageTokens(request.body, model);
  if (!count) return tl::unexpected<ApiError>(count.error());
  return ApiReply{.body = WriteJson({{"input_tokens", *count}})};
}

JsonValue CardJson(const ModelCard& model) {
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", model.name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                     fmt::gmtime(static_cast<std::time_t>(model.created)))},
          {"max_input_tokens", model.max_context},
          {"max_tokens", model.max_context}};
}

JsonValue ListJson(JsonValue cards) {
  return {{"data", cards},
          {"has_more", false},
          {"first_id", *cards.items().front().Find("id")},
          {"last_id", *cards.items().back().Find("id")}};
}

constexpr std::string_view kMessagesPaths[] = {"/v1/messages", "/anthropic/v1/messages"};
constexpr std::string_view kMessagesPrefixes[] = {"/v1/messages/", "/anthropic/"};
constexpr ApiRoute kMessagesRoutes[] = {
    {"POST", "/v1/messages/count_tokens", CountTokens},
    {"POST", "/anthropic/v1/messages/count_tokens", CountTokens},
};

}  // namespace

const Api kMessages = {
    .paths = kMessagesPaths,
    .routes = kMessagesRoutes,
    .header = "anthropic-version",
    .path_prefixes = kMessagesPrefixes,
    .request_id_header = "request-id",
    .prepare =
        [](const ApiBody& body, const ApiModel& model) {
          return PrepareChat(kMessages, ParseMessagesRequest(body, model.limits, model.defaults),
                             model, body.is_abandoned);
        },
    .make_format = MakeMessagesFormat,
    .error =
        [](const ApiError& error) {
          return ApiReply{.status = MessagesStatus(error),
                          .body = WriteJson(MessagesErrorJson(error))};
        },
    .model_card = CardJson,
    .model_list = ListJson,
    .answer_id = "msg_",
    .call_id = "toolu_",
};

ApiResult<std::int64_t> CountMessageTokens(const ApiBody& body, const ApiModel& model) {
  return CountPromptTokens(ParseMessagesRequest(body, model.limits, model.defaults), model,
                           body.is_abandoned);
}

}  // namespace fathom::api
