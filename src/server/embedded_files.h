// The files that are part of the program. Constant.
#pragma once

#include <string_view>

namespace fathom {

// The chat page: HTML with its style and script in it (docs/chat_page.md).
std::string_view ChatPage();
// Its Content-Security-Policy, as the field of HTTP has it. Send it with the page.
std::string_view ChatPagePolicy();
// openapi.json: what the server offers, in OpenAPI 3.1.
std::string_view OpenApiJson();

}  // namespace fathom
