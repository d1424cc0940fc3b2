#include "server/embedded_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

namespace fathom::server {
namespace {

// The browser loads only this server's own files and sends requests only to this server. Trusted
// Types: the browser refuses to parse markup at run time for any script. The page repeats all but
// the last directive, which is not allowed there.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; trusted-types 'none'; require-trusted-types-for "
    "'script'; frame-ancestors 'none'";

struct WebFile {
  std::string_view path;
  std::string_view content_type;
  std::string_view (*bytes)();
};

constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::array kFiles = {
    WebFile{"/", "text/html; charset=utf-8", PageHtml},
    WebFile{"/web/page.css", "text/css; charset=utf-8", PageCss},
    WebFile{"/web/attachments.js", kScript, AttachmentsJs},
    WebFile{"/web/chat_file.js", kScript, ChatFileJs},
    WebFile{"/web/chat_record.js", kScript, ChatRecordJs},
    WebFile{"/web/chat_search.js", kScript, ChatSearchJs},
    WebFile{"/web/chat_title.js", kScript, ChatTitleJs},
    WebFile{"/web/code_languages.js", kScript, CodeLanguagesJs},
    WebFile{"/web/code_view.js", kScript, CodeViewJs},
    WebFile{"/web/dom.js", kScript, DomJs},
    WebFile{"/web/generation.js", kScript, GenerationJs},
    WebFile{"/web/main.js", kScript, MainJs},
    WebFile{"/web/markdown.js", kScript, MarkdownJs},
    WebFile{"/web/markdown_inline.js", kScript, MarkdownInlineJs},
    WebFile{"/web/math.js", kScript, MathJs},
    WebFile{"/web/math_symbols.js", kScript, MathSymbolsJs},
    WebFile{"/web/message_view.js", kScript, MessageViewJs},
    WebFile{"/web/server_api.js", kScript, ServerApiJs},
    WebFile{"/web/server_load.js", kScript, ServerLoadJs},
    WebFile{"/web/settings.js", kScript, SettingsJs},
    WebFile{"/web/settings_dialog.js", kScript, SettingsDialogJs},
    WebFile{"/web/storage.js", kScript, StorageJs},
};

}  // namespace

std::optional<HttpResponse> WebFileResponse(const HttpRequest& request) {
  const auto* const file = std::ranges::find(kFiles, request.path, &WebFile::path);
  if (file == kFiles.end()) return std::nullopt;
  const std::string_view bytes = file->bytes();
  const std::string tag = fmt::format("\"{:x}\"", std::hash<std::string_view>()(bytes));
  HttpResponse response = {.content_type = std::string(file->content_type),
                           .fields = {{"Content-Security-Policy", std::string(kPolicy)},
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"Referrer-Policy", "no-referrer"},
                                      {"Cache-Control", "no-cache"},  // always revalidate
                                      {"ETag", tag}}};
  if (request.Field("If-None-Match") == tag) {
    response.status = 304;
  } else {
    response.body = bytes;
  }
  return response;
}

}  // namespace fathom::server
