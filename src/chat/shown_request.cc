#include "chat/shown_request.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "chat/history.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

// Returns {"name": ..., "description": ..., "parameters": ...} in the client's spelling.
Result<std::string> ShownFunction(std::string_view function_json) {
  const Result<JsonValue> function = ParseJson(function_json);
  if (!function) return Unexpected(function.error());
  if (!function->IsObject()) {
    return MakeError(ErrorCode::kInvalidArgument, "function: expected an object, found {}",
                     function->Describe());
  }
  const auto field = [&](std::string_view key, std::string_view otherwise) {
    const JsonValue* value = function->Find(key);
    return value == nullptr || value->IsNull() ? otherwise : value->SourceIn(function_json);
  };
  return fmt::format(R"({{"name": {}, "description": {}, "parameters": {}}})",
                     field("name", R"("")"), field("description", R"("")"),
                     field("parameters", "{}"));
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
  for (ToolSpec& tool : request->tools) {
    Result<std::string> shown = ShownFunction(tool.function_json);
    // The encoder reports errors in a function that is not an object.
    if (shown) tool.function_json = *std::move(shown);
  }
  ShowResponseFormat(request);
}

Result<std::string> ToolDefinition(std::string_view function_json) {
  const Result<std::string> shown = ShownFunction(function_json);
  if (!shown) return shown;
  return ReserializeLikePython(*shown);
}

}  // namespace fathom::chat
