#include "chat/tool_definition.h"

#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {

Result<std::string> ToolDefinition(std::string_view function_json) {
  const Result<JsonValue> function = ParseJson(function_json);
  if (!function) return Unexpected(function.error());
  const auto field = [&function](std::string_view key, JsonValue otherwise) {
    const JsonValue* value = function->Find(key);
    return value == nullptr || value->IsNull() ? std::move(otherwise) : *value;
  };
  return PythonJson({{"name", field("name", "")},
                     {"description", field("description", "")},
                     {"parameters", field("parameters", JsonValue::Object())}});
}

}  // namespace fathom
