// The golden answers of data/encoding/extra/robust_parse_cases.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/tool_schemas.h"

namespace fathom::testing {

// The tools of a golden answer: names, or function objects; null stands for any.
inline ToolSchemas ReadTools(const nlohmann::ordered_json& golden) {
  using Json = nlohmann::ordered_json;
  std::vector<ToolSpec> tools;
  const auto add = [&tools](const std::string& name, const Json& function) {
    tools.push_back({.name = name, .function_json = function.dump()});
  };
  for (const Json& schema : golden["tool_schemas"]) {
    const std::string name = (schema.is_string() ? schema : schema["name"]).get<std::string>();
    add(name, schema.is_string() ? Json({{"name", name}}) : schema);
  }
  if (golden["tool_schemas"].is_null()) {
    add("any", {{"name", "any"}});  // without tools nothing is a call
    for (const Json& call : golden["expected"]["tool_calls"]) {
      add(call["name"].get<std::string>(), {{"name", call["name"]}});
    }
  }
  return *ToolSchemas::Make(tools);
}

}  // namespace fathom::testing
