// ServedRequest: what is told of one request once it has been answered.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/common/api_answer.h"

namespace fathom {

struct ServedRequest {
  std::string id;    // X-Request-Id
  std::string peer;  // the client's address
  std::string method;
  std::string path;      // as it was asked for
  std::string endpoint;  // which of ours that is; "none" if it is none
  int status = 0;        // of HTTP; 499: the client went away before there was one
  double seconds = 0;

  // Of requests that generate; nothing of their text.
  bool generates = false;
  bool stream = false;
  std::string model;
  Usage usage;
  std::size_t n_replayed = 0;  // turns that the prompt has as they were written
  double queue_seconds = 0;
  double first_token_seconds = 0;
  std::string finish;  // of the first choice; or "cancelled"
  int turn_stops = 0;  // choices that a turn token ended (chat_tokens.h)
  std::string error;   // the message the client got, if it got one

  // Only where content is to be logged.
  std::optional<std::string> body;
  std::optional<std::string> answer;
};

}  // namespace fathom
