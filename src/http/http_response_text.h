// The bytes of an HTTP response in front of its body.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>

#include "http/http.h"

namespace fathom {

// How the client finds the end of the body.
enum class BodyFraming { kLength, kChunked, kUntilClose };

enum class Persistence {
  kKeep,         // HTTP/1.1, where it goes without saying
  kKeepHttp1_0,  // said to a client of HTTP/1.0 that asked for it
  kClose,
};

// Statuses that never have a body: 1xx, 204, 304.
bool HasNoBody(int status);

// From the status line to the empty line. The body of `response` counts only by its size. Control
// characters in values become blanks: a client could have chosen them, and a line break would
// begin a field, or a response, of its own.
std::string ResponseHeader(const HttpResponse& response, BodyFraming framing,
                           Persistence persistence, std::time_t now);

}  // namespace fathom
