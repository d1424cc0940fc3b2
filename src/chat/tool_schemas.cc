#include "chat/tool_schemas.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace fathom::chat {
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
    Tool tool = {.strict = tools[i].strict};
    const JsonValue* parameters = function->Find("parameters");
    const JsonValue* properties = parameters == nullptr ? nullptr : parameters->Find("properties");
    if (properties != nullptr && properties->IsObject()) {
      tool.listed.emplace();
      for (std::size_t p = 0; p < properties->items().size(); ++p) {
        tool.listed->emplace(properties->key(p), ReadType(properties->items()[p]));
      }
    }
    const JsonValue* required = parameters == nullptr ? nullptr : parameters->Find("required");
    if (tool.strict && required != nullptr && required->IsArray()) {
      for (const JsonValue& name : required->items()) {
        if (name.IsString()) tool.required.emplace_back(name.text());
      }
    }
    schemas.tools_.insert_or_assign(tools[i].name, std::move(tool));
  }
  return schemas;
}

ParameterType ToolSchemas::FindType(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end() || !found->second.listed) return ParameterType::kUnknown;
  const auto property = found->second.listed->find(parameter);
  return property == found->second.listed->end() ? ParameterType::kUnknown : property->second;
}

bool ToolSchemas::Lacks(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() && !found->second.strict && found->second.listed &&
         !found->second.listed->contains(parameter);
}

bool ToolSchemas::RequiresMore(std::string_view tool, const JsonValue& arguments) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() &&
         std::any_of(found->second.required.begin(), found->second.required.end(),
                     [&](const std::string& name) { return arguments.Find(name) == nullptr; });
}

}  // namespace fathom::chat
