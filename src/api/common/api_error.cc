#include "api/common/api_error.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "json/json_writer.h"

namespace fathom::api {
namespace {

// Returns "stop[2]" for "stop[2]: expected ...", or "" if the message does not begin with a field.
std::string_view LeadingField(std::string_view message) {
  constexpr std::string_view kFieldCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]";
  const std::size_t end = message.find_first_not_of(kFieldCharacters);
  return end != std::string_view::npos && message.substr(end).starts_with(": ")
             ? message.substr(0, end)
             : std::string_view();
}

JsonValue TextOrNull(const std::string& text) {
  return text.empty() ? JsonValue(nullptr) : JsonValue(text);
}

std::string TypeOfStatus(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "overloaded_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

// All other errors are the server's.
struct ClientError {
  ErrorCode error;
  int status;
  const char* code;
};

constexpr ClientError kClientErrors[] = {
    {ErrorCode::kInvalidArgument, 400, "invalid_value"},
    {ErrorCode::kInvalidData, 400, "invalid_value"},
    {ErrorCode::kUnsupported, 400, "unsupported_parameter"},
    {ErrorCode::kNotFound, 404, "not_found"},
    {ErrorCode::kResourceExhausted, 429, "queue_full"},
    {ErrorCode::kUnavailable, 503, "unavailable"},
    {ErrorCode::kTooLarge, 413, "request_too_large"},
};

}  // namespace

ApiError MakeApiError(int status, std::string code, std::string message, std::string param) {
  return {.status = status,
          .message = std::move(message),
          .type = TypeOfStatus(status),
          .param = std::move(param),
          .code = std::move(code)};
}

ApiError ToApiError(const Error& error) {
  for (const ClientError& known : kClientErrors) {
    if (known.error != error.code) continue;
    const std::string_view field = known.status == 400 ? LeadingField(error.message) : "";
    return MakeApiError(known.status, known.code, error.message, std::string(field));
  }
  return MakeApiError(500, "server_error", error.message);
}

tl::unexpected<ApiError> UnexpectedApiError(const Error& error) {
  return tl::unexpected<ApiError>(ToApiError(error));
}

ApiError ContextLengthError(std::int64_t prompt_tokens, std::int64_t max_context, bool is_least) {
  ApiError error = MakeApiError(
      400, "context_length_exceeded",
      fmt::format(
          "This model's maximum context length is {} tokens. However, you requested {}{} tokens: "
          "the prompt is too long. Please shorten it.",
          max_context, is_least ? "at least " : "", prompt_tokens),
      "messages");
  error.overflow = ContextOverflow{.prompt_tokens = prompt_tokens, .max_context = max_context};
  return error;
}

JsonValue IssuesJson(const ApiError& error) {
  JsonValue issues = JsonValue::Array();
  for (const ConstraintIssue& issue : error.issues) {
    issues.push_back(
        {{"pointer", issue.pointer}, {"keyword", issue.keyword}, {"reason", issue.reason}});
  }
  return issues;
}

std::string ToJson(const ApiError& error) {
  JsonValue fields = {{"message", error.message},
                      {"type", error.type},
                      {"param", TextOrNull(error.param)},
                      {"code", TextOrNull(error.code)}};
  if (!error.issues.empty()) fields["errors"] = IssuesJson(error);
  return WriteJson({{"error", std::move(fields)}});
}

}  // namespace fathom::api
