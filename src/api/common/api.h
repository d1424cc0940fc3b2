// Api: what one API is to the server. A folder of api/ defines its own; apis.cc lists all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/common/answer_format.h"
#include "api/common/api_answer.h"
#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "json/json_value.h"

namespace fathom {

// A request of an API that generates nothing.
struct ApiRoute {
  std::string_view method;
  std::string_view path;  // "{id}" stands for any text without '/'
  // The body of the response. `id`: the text in the place of "{id}", or "".
  ApiResult<std::string> (*answer)(const ApiModel& model, std::string_view id,
                                   std::string_view body);
};

// One name of the served model, as GET /v1/models shows it.
struct ModelCard {
  std::string name;
  std::string root;              // the name of the model itself
  std::int64_t created = 0;      // seconds since 1970, UTC
  std::int64_t max_context = 0;  // tokens
};

struct Api {
  // Requests, all of them POST: those to `paths` generate.
  std::span<const std::string_view> paths;
  std::span<const ApiRoute> routes{};
  // Other requests that want the errors and model cards of this API: those with this header field,
  // and those to paths with one of these prefixes.
  std::string_view header{};
  std::span<const std::string_view> path_prefixes{};
  std::string_view request_id_header{};  // for the request id, beside X-Request-Id

  // Errors: those of a wrong body (ToApiError), and of a prompt that is longer than
  // limits.max_context.
  ApiResult<ApiCall> (*prepare)(std::string_view body, const ApiModel& model);
  std::unique_ptr<AnswerFormat> (*make_format)();
  ApiReply (*error)(const ApiError& error);
  // Keeps an answer that the client may refer to later. Called before the client sees its end.
  void (*store)(const ApiAnswer& answer) = nullptr;
  JsonValue (*model_card)(const ModelCard& model);
  JsonValue (*model_list)(std::span<const ModelCard> models);  // at least one

  bool is_chat = true;  // false: all text is content
  // Stream the arguments of calls also into answers that are sent whole.
  bool always_streams_arguments = false;
  std::string_view answer_id;                          // prefix: "chatcmpl-"
  std::string_view call_id = "call_";                  // prefix of the ids of tool calls
  std::string_view prompt_field = "messages";          // named where the prompt is too long
  std::string_view effort_field = "reasoning_effort";  // named where the effort is unknown
};

// All of them; the first one's errors are those of requests of no API.
std::span<const Api* const> Apis();

// The API whose `paths` has the path; nullptr if there is none.
const Api* FindApi(std::string_view path);

// Call once all requests have ended. An error of one choice is the error of the call.
ApiReply WholeReply(const ApiAnswer& answer);

}  // namespace fathom
