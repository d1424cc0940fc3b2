#include "chat/shown_request.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/history.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// Returns the text of a value, or `otherwise` where it is absent or null.
std::string_view SourceOr(const JsonValue* value, std::string_view source,
                          std::string_view otherwise) {
  return value == nullptr || value->IsNull() ? otherwise : value->SourceIn(source);
}

void ShowTool(ToolSpec* tool) {
  const Result<JsonValue> function = ParseJson(tool->function_json);
  if (!function || !function->IsObject()) return;  // the encoder names what is wrong
  const std::string_view source = tool->function_json;
  tool->function_json = fmt::format(R"({{"name": {}, "description": {}, "parameters": {}}})",
                                    PythonJsonString(tool->name),
                                    SourceOr(function->Find("description"), source, R"("")"),
                                    SourceOr(function->Find("parameters"), source, "{}"));
}

void ShowResponseFormat(ChatRequest* request) {
  if (!request->response_format) return;
  const Result<JsonValue> format = ParseJson(*request->response_format);
  if (!format || !format->IsObject()) return;
  const std::string_view type = format->FindText("type");
  if (type != "json_schema" && type != "json_object") return;
  // The schema of chats is one level deeper than that of the other APIs.
  const JsonValue* inner = format->Find("json_schema");
  const JsonValue* schema = inner == nullptr ? format->Find("schema") : inner->Find("schema");
  if (schema != nullptr && !schema->IsNull()) {
    request->response_format = std::string(schema->SourceIn(*request->response_format));
  } else {
    request->response_format.reset();
    request->asks_for_object = true;
  }
}

}  // namespace

void ShowAsConverter(ChatRequest* request) {
  ArrangeHistory(&request->messages);
  for (ToolSpec& tool : request->tools) ShowTool(&tool);
  ShowResponseFormat(request);
}

}  // namespace fathom
