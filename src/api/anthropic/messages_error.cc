#include "api/anthropic/messages_error.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "json/json_value.h"

namespace fathom {
namespace {

constexpr int kOverloaded = 529;

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case kOverloaded:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string MessageOf(const ApiError& error) {
  if (error.overflow) {
    return fmt::format("prompt is too long: {} tokens > {} maximum", error.overflow->prompt_tokens,
                       error.overflow->max_context);
  }
  const bool names_field = error.param.empty() || error.message.starts_with(error.param);
  return names_field ? error.message : fmt::format("{}: {}", error.param, error.message);
}

}  // namespace

int MessagesStatus(const ApiError& error) {
  return error.status == 503 ? kOverloaded : error.status;
}

JsonValue MessagesErrorJson(const ApiError& error) {
  JsonValue json = {
      {"type", "error"},
      {"error", {{"type", ErrorType(MessagesStatus(error))}, {"message", MessageOf(error)}}}};
  if (!error.request_id.empty()) json["request_id"] = error.request_id;
  return json;
}

}  // namespace fathom
