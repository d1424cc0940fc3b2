#include "api/common/api_error.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "json/json_writer.h"

namespace fathom {
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

ApiError WithoutField(int status, std::string type, std::string code, const Error& error) {
  return {.status = status,
          .message = error.message,
          .type = std::move(type),
          .param = "",
          .code = std::move(code)};
}

}  // namespace

ApiError ToApiError(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
    case ErrorCode::kUnsupported: {
      const bool is_unsupported = error.code == ErrorCode::kUnsupported;
      return {.status = 400,
              .message = error.message,
              .type = "invalid_request_error",
              .param = std::string(LeadingField(error.message)),
              .code = is_unsupported ? "unsupported_parameter" : "invalid_value"};
    }
    case ErrorCode::kNotFound:
      return WithoutField(404, "invalid_request_error", "not_found", error);
    case ErrorCode::kResourceExhausted:
      return WithoutField(429, "rate_limit_error", "queue_full", error);
    case ErrorCode::kUnavailable:
      return WithoutField(503, "overloaded_error", "unavailable", error);
    case ErrorCode::kTooLarge:
      return WithoutField(413, "invalid_request_error", "request_too_large", error);
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kIo:
      break;
  }
  return WithoutField(500, "server_error", "server_error", error);
}

tl::unexpected<ApiError> UnexpectedApiError(const Error& error) {
  return tl::unexpected<ApiError>(ToApiError(error));
}

ApiError ContextLengthError(std::int64_t prompt_tokens, std::int64_t max_context, bool is_least) {
  return {
      .status = 400,
      .message = fmt::format(
          "This model's maximum context length is {} tokens. However, you requested {}{} tokens: "
          "the prompt is too long. Please shorten it.",
          max_context, is_least ? "at least " : "", prompt_tokens),
      .type = "invalid_request_error",
      .param = "messages",
      .code = "context_length_exceeded",
      .overflow = ContextOverflow{.prompt_tokens = prompt_tokens, .max_context = max_context}};
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

}  // namespace fathom
