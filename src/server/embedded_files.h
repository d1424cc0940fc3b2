// The files that are part of the program, as the build writes them (fathom_embed). Constant.
#pragma once

#include <string_view>

namespace fathom {

// openapi.json: the server's endpoints, in OpenAPI 3.1.
std::string_view OpenApiJson();

// The chat page: server/web.
std::string_view PageHtml();
std::string_view PageCss();
std::string_view DomJs();
std::string_view GenerationJs();
std::string_view MainJs();
std::string_view MarkdownJs();
std::string_view MarkdownInlineJs();
std::string_view MessageViewJs();
std::string_view ServerApiJs();
std::string_view StorageJs();

}  // namespace fathom
