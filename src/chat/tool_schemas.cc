#include "chat/tool_schemas.h"

#include <cstddef>
#include <utility>

#include "json/json_value.h"

namespace fathom {
namespace {

ParameterType ReadType(const JsonValue& schema) {
  const JsonValue* type = schema.Find("type");
  if (type == nullptr || !type->IsString()) return ParameterType::kUnknown;
  return type->text() == "string" ? ParameterType::kString : ParameterType::kOther;
}

}  // namespace

Result<ToolSchemas> ToolSchemas::Make(std::span<const ToolSpec> tools) {
  ToolSchemas schemas;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Result<JsonValue> function = ParseJson(tools[i].function_json);
    if (!function) {
      return MakeError(ErrorCode::kInvalidArgument, "tools[{}].function: {}", i,
                       function.error().message);
    }
    std::optional<Properties> listed;
    const JsonValue* parameters = function->Find("parameters");
    const JsonValue* properties = parameters == nullptr ? nullptr : parameters->Find("properties");
    if (properties != nullptr && properties->IsObject()) {
      listed.emplace();
      for (std::size_t p = 0; p < properties->items().size(); ++p) {
        listed->emplace(properties->key(p), ReadType(properties->items()[p]));
      }
    }
    schemas.tools_.insert_or_assign(tools[i].name, std::move(listed));
  }
  return schemas;
}

ParameterType ToolSchemas::TypeOf(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end() || !found->second) return ParameterType::kUnknown;
  const auto property = found->second->find(parameter);
  return property == found->second->end() ? ParameterType::kUnknown : property->second;
}

bool ToolSchemas::Lacks(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() && found->second &&
         found->second->find(parameter) == found->second->end();
}

}  // namespace fathom
