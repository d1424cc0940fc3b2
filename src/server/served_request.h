// ServedRequest: the record of one request that has been answered.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/common/api_answer.h"
#include "api/common/api_error.h"

namespace fathom::server {

struct ServedRequest {
  std::string id;    // X-Request-Id
  std::string peer;  // the client's address
  std::string method;
  std::string path;      // path of HttpRequest; a long one is shortened
  std::string endpoint;  // the route of this server; "none" without one
  bool has_key = false;  // the client gave an API key or an admin key of this server
  int status = 0;        // HTTP status; 499: the client left before there was a response
  double seconds = 0;

  // The next fields are set only for requests that generate; they contain none of their text.
  bool generates = false;
  bool stream = false;
  std::string model;  // the server's name for the model
  Usage usage;
  std::size_t n_replayed = 0;  // turns that the prompt replays token by token
  AnswerTimes times;
  double first_token_seconds = 0;  // time since the request arrived
  std::size_t longest_choice = 0;  // number of tokens
  std::string finish;              // finish reason of the first choice; or "cancelled"
  int turn_stops = 0;              // choices that a turn token ended (prompt_tokens.h)
  std::string relaxed;             // ApiCall::relaxed; may quote the request
  bool has_constraint = false;     // the answers have a constraint
  double compile_seconds = 0;      // time of compiling the constraint
  std::string constraint_error;    // reason of a refused or failed constraint: ApiError::code
  // The error that the client received, if any.
  std::string error;        // its message; may quote the request if the client is at fault
  std::string error_field;  // ApiError::param
  std::string error_kind;   // ApiError::code, or its type

  void SetError(const ApiError& told) {
    error = told.message;
    error_field = told.param;
    error_kind = told.code.empty() ? told.type : told.code;
    if (!told.issues.empty() || told.code.starts_with("constraint_")) constraint_error = told.code;
  }

  // Only if content is logged.
  std::optional<std::string> body;
  std::optional<std::string> answer;
};

}  // namespace fathom::server
