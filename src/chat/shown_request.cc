#include "chat/shown_request.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "chat/history.h"
#include "chat/tool_definition.h"
#include "json/json_value.h"

namespace fathom {
namespace {

// The encoder reports errors in a function that is not an object.
void ShowTool(ToolSpec* tool) {
  Result<std::string> shown = ShownFunction(tool->function_json);
  if (shown) tool->function_json = *std::move(shown);
}

void ShowResponseFormat(ChatRequest* request) {
  if (!request->response_format) return;
  const Result<JsonValue> format = ParseJson(*request->response_format);
  if (!format || !format->IsObject()) return;
  const std::string_view type = format->FindText("type");
  if (type != "json_schema" && type != "json_object") return;
  // The schema of chats is nested one level deeper than in the other APIs.
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
