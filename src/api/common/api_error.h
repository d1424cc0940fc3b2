// ApiError: an error with the fields that OpenAI clients know. docs/spec/serving.md section 7.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/result.h"
#include "constraint/constraint_error.h"
#include "json/json_value.h"

namespace fathom::api {

// The lengths for a prompt that is too long.
struct ContextOverflow {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_context = 0;  // tokens
};

struct ApiError {
  int status = 500;     // HTTP status
  std::string message;  // UTF-8
  std::string type;     // "invalid_request_error", "server_error", ...
  std::string param;    // the wrong field of the request; may be empty
  std::string code;     // may be empty
  std::optional<ContextOverflow> overflow{};
  // The places of a schema or a grammar that were refused; at most kMaxIssues.
  std::vector<ConstraintIssue> issues{};
  std::string request_id{};  // written by APIs that have a field for it; may be empty
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

// Returns an error whose type follows from the status. `param`: ApiError::param.
ApiError MakeApiError(int status, std::string code, std::string message, std::string param = "");

// Converts an error for a client. If the message begins with the path of a field and a colon, the
// field becomes `param`.
ApiError ToApiError(const Error& error);

// Returns the error as the result of a function that returns an ApiResult.
tl::unexpected<ApiError> UnexpectedApiError(const Error& error);

// Returns the error for a prompt that is too long. Clients look for the words "maximum context
// length". `is_least`: prompt_tokens is a lower bound.
ApiError ContextLengthError(std::int64_t prompt_tokens, std::int64_t max_context,
                            bool is_least = false);

// Returns ApiError::issues as a list: [{"pointer": ..., "keyword": ..., "reason": ...}, ...].
JsonValue IssuesJson(const ApiError& error);

// Writes {"error": {"message": ..., "type": ..., "param": ..., "code": ...}} on one line; empty
// fields are null. A field "errors" is added for issues.
std::string ToJson(const ApiError& error);

}  // namespace fathom::api
