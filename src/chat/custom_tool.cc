#include "chat/custom_tool.h"

#include <fmt/format.h>

#include <utility>

#include "json/json_writer.h"

namespace fathom {

ToolSpec CustomFunction(const CustomTool& tool, std::string path) {
  // The description shows the grammar, so that the model knows which texts it may write.
  std::string input = "The whole input of the tool, as plain text.";
  if (!tool.definition.empty()) {
    input += fmt::format(" It must match this {} grammar:\n{}", tool.syntax, tool.definition);
  }
  return {.name = std::string(tool.name),
          .function_json = fmt::format(
              R"({{"name": {}, "description": {}, "parameters": {{"type": "object", "properties": )"
              R"({{"{}": {{"type": "string", "description": {}}}}}, "required": ["{}"]}}}})",
              PythonJsonString(tool.name), PythonJsonString(tool.description), kCustomInput,
              PythonJsonString(input), kCustomInput),
          .path = std::move(path),
          .text_parameter = std::string(kCustomInput),
          .text_regex = tool.syntax == "regex" ? std::string(tool.definition) : ""};
}

std::string CustomArguments(std::string_view input) {
  return fmt::format(R"({{"{}": {}}})", kCustomInput, PythonJsonString(input));
}

}  // namespace fathom
