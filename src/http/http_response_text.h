// Writes the bytes of an HTTP response that precede its body.
#pragma once

#include <ctime>
#include <string>

#include "http/http.h"

namespace fathom::http {

// Selects how the client finds the end of the body.
enum class BodyFraming { kLength, kChunked, kUntilClose };

enum class Persistence {
  kKeep,         // the default of HTTP/1.1
  kKeepHttp1_0,  // sent to a client of HTTP/1.0 that asked for it
  kClose,
};

// Returns true for statuses that never have a body: 1xx, 204, 304.
bool HasNoBody(int status);

// Writes from the status line to the empty line. Uses only the size of the body of `response`.
// Control characters in values become blanks: a client could have chosen them, and a line break
// would begin another field or response.
std::string ResponseHeader(const HttpResponse& response, BodyFraming framing,
                           Persistence persistence, std::time_t now);

}  // namespace fathom::http
