// The files of the chat page (docs/chat_page.md), which are part of the program.
#pragma once

#include <optional>
#include <string_view>

#include "http/http.h"

namespace fathom {

// The response to GET of `request.path`: "/" is the page, "/web/NAME" one of its scripts or its
// style; 304 if the client has it already. None: there is no such file. Any thread.
std::optional<HttpResponse> WebFileResponse(const HttpRequest& request);

}  // namespace fathom
