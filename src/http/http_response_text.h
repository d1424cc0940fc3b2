// Writes the bytes of an HTTP response in front of its body.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>

#include "http/http.h"

namespace fathom {

// Tells the client where the body ends.
enum class BodyFraming { kLength, kChunked, kUntilClose };

enum class Persistence {
  kKeep,         // HTTP/1.1, whose default it is
  kKeepHttp1_0,  // told to a client of HTTP/1.0 that asked for it
  kClose,
};

// Statuses that never have a body: 1xx, 204, 304.
bool HasNoBody(int status);

// Writes the status line to the empty line. Only the size of the body of `response` counts. Control
// characters in values become blanks: a client could have chosen them, and a line break would begin
// another field or response.
std::string ResponseHeader(const HttpResponse& response, BodyFraming framing,
                           Persistence persistence, std::time_t now);

}  // namespace fathom
