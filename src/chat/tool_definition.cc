#include "chat/tool_definition.h"

#include <fmt/format.h>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {

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

Result<std::string> ToolDefinition(std::string_view function_json) {
  const Result<std::string> shown = ShownFunction(function_json);
  if (!shown) return shown;
  return ReserializeLikePython(*shown);
}

}  // namespace fathom
