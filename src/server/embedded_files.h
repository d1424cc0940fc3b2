// The files that are part of the program, as the build writes them (fathom_embed), and the
// responses with the files of the chat page (docs/chat_page.md). Constant.
#pragma once

#include <optional>
#include <string_view>

#include "http/http.h"

namespace fathom::server {

// Returns openapi.json: the server's endpoints, in OpenAPI 3.1 with short operations
// (OpenApiDocument).
std::string_view OpenApiJson();

// Return the files of the chat page: server/web.
std::string_view PageHtml();
std::string_view PageCss();
std::string_view AttachmentsJs();
std::string_view ChatFileJs();
std::string_view ChatRecordJs();
std::string_view ChatSearchJs();
std::string_view ChatTitleJs();
std::string_view CodeLanguagesJs();
std::string_view CodeViewJs();
std::string_view DomJs();
std::string_view GenerationJs();
std::string_view MainJs();
std::string_view MarkdownJs();
std::string_view MarkdownInlineJs();
std::string_view MathJs();
std::string_view MathSymbolsJs();
std::string_view MessageViewJs();
std::string_view ServerApiJs();
std::string_view ServerLoadJs();
std::string_view SettingsJs();
std::string_view SettingsDialogJs();
std::string_view StorageJs();

// Returns the response to GET of `request.path`: "/" is the page, "/web/NAME" one of its scripts or
// its style; 304 if the client already has the file. None: there is no such file. Any thread.
std::optional<HttpResponse> WebFileResponse(const HttpRequest& request);

}  // namespace fathom::server
