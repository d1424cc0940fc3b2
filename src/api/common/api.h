// Api: the descriptor of one API. Each folder of api/ defines its own; apis.cc lists them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/common/answer_format.h"
#include "api/common/api_answer.h"
#include "api/common/api_body.h"
#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "json/json_value.h"

namespace fathom::api {

// A request to a route.
struct ApiRouteRequest {
  std::string_view id;     // the text at the place of "{id}", or ""
  std::string_view query;  // the part of the target after '?'
  ApiBody body = std::string_view();
};

// A request to an API that generates nothing.
struct ApiRoute {
  std::string_view method;
  std::string_view path;  // "{id}" matches any text without '/'
  ApiResult<ApiReply> (*answer)(const ApiModel& model, const ApiRouteRequest& request);
};

// One name of the served model, as GET /v1/models shows it.
struct ModelCard {
  std::string name;
  std::string root;              // the name of the model itself
  std::string description{};     // GenerationConfig::description
  std::int64_t created = 0;      // seconds since 1970, UTC
  std::int64_t max_context = 0;  // tokens
};

struct Api {
  // The paths of POST requests that generate answers.
  std::span<const std::string_view> paths;
  std::span<const ApiRoute> routes{};
  // A request to any other path gets errors and model cards of this API if it has this header field
  // or its path has one of these prefixes.
  std::string_view header{};
  std::span<const std::string_view> path_prefixes{};
  std::string_view request_id_header{};  // carries the request id, in addition to X-Request-Id

  // Errors: a wrong body (ToApiError), a prompt longer than limits.max_context, or a body that was
  // abandoned before the call was ready (503). An API may instead report an error to its clients in
  // a stream (ApiCall::refusal).
  ApiResult<ApiCall> (*prepare)(const ApiBody& body, const ApiModel& model);
  std::unique_ptr<AnswerFormat> (*make_format)();
  ApiReply (*error)(const ApiError& error);
  // Stores an answer to which the client may refer later. Called before the client sees its end.
  void (*store)(const ApiAnswer& answer) = nullptr;
  JsonValue (*model_card)(const ModelCard& model);
  JsonValue (*model_list)(JsonValue cards);  // a list of model_card, at least one

  bool is_chat = true;  // false: all text is content
  // Also parse the arguments of calls piece by piece for answers that are sent whole.
  bool always_streams_arguments = false;
  std::string_view answer_id;                  // prefix of answer ids: "chatcmpl-"
  std::string_view call_id = "call_";          // prefix of tool call ids
  std::string_view prompt_field = "messages";  // the field named when the prompt is too long
};

// Returns all APIs. Requests that belong to no API get the errors of the first one.
std::span<const Api* const> Apis();

// Returns the API with the path in `paths`, or nullptr.
const Api* FindApi(std::string_view path);

// Returns the whole response. Call it when all requests have ended. An error of one choice becomes
// the error of the call.
ApiReply WholeReply(const ApiAnswer& answer);

}  // namespace fathom::api
