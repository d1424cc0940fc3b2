#include "api/responses/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "json/json_writer.h"

namespace fathom {
namespace {

// Returns the text of a member, or "".
std::string TextOf(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value != nullptr && value->IsString() ? value->text : "";
}

class ToolReader {
 public:
  ToolReader(FieldReader& reader, std::string_view source) : reader_(reader), source_(source) {}

  void ReadList(const JsonValue& list, const std::string& path, const std::string& space) {
    if (!list.IsArray()) {
      reader_.Fail(path, "a list of tools", list);
      return;
    }
    for (std::size_t i = 0; i < list.items.size() && !reader_.error(); ++i) {
      ReadTool(list.items[i], fmt::format("{}[{}]", path, i), space);
    }
  }

  ResponsesTools Take() { return std::move(result_); }

 private:
  void ReadTool(const JsonValue& tool, const std::string& path, const std::string& space) {
    const JsonValue* type = tool.Find("type");
    if (type == nullptr || !type->IsString()) {
      reader_.Fail(path, "an object with a type", tool);
    } else if (type->text == "function" || type->text == "custom") {
      AddTool(tool, path, space, type->text == "custom");
    } else if (type->text == "namespace" && space.empty()) {
      const std::string name = ReadName(tool, path);
      const JsonValue* inner = tool.Find("tools");
      if (inner != nullptr) ReadList(*inner, path + ".tools", name);
    }
  }

  void AddTool(const JsonValue& tool, const std::string& path, const std::string& space,
               bool is_custom) {
    const std::string name = ReadName(tool, path);
    const std::string flat_name = FlatToolName(space, name);
    if (result_.strict_field.empty() && IsStrict(tool)) result_.strict_field = path + ".strict";
    result_.tools.push_back(
        {.name = flat_name,
         .function_json = is_custom ? CustomFunction(tool, flat_name) : Function(tool, flat_name)});
    if (is_custom || !space.empty()) {
      result_.client_tools[flat_name] = {.name = name, .space = space, .is_custom = is_custom};
    }
  }

  std::string ReadName(const JsonValue& tool, const std::string& path) {
    const JsonValue* name = tool.Find("name");
    if (name == nullptr || !name->IsString() || name->text.empty()) {
      reader_.Fail(path + ".name", "a string that is not empty",
                   name == nullptr ? "nothing" : DescribeFound(*name));
      return "";
    }
    return name->text;
  }

  // Returns the function object of chat completions: the client's text without the type.
  std::string Function(const JsonValue& tool, const std::string& name) const {
    std::string json;
    for (std::size_t i = 0; i < tool.keys.size(); ++i) {
      if (tool.keys[i] == "type") continue;
      const JsonValue& value = tool.items[i];
      json += json.empty() ? "{" : ", ";
      json += PythonJsonString(tool.keys[i]) + ": ";
      json +=
          tool.keys[i] == "name" ? PythonJsonString(name) : std::string(value.SourceIn(source_));
    }
    return json + "}";
  }

  // The model was trained on functions only. A grammar is not enforced, so the description shows
  // it.
  std::string CustomFunction(const JsonValue& tool, const std::string& name) const {
    std::string input = "The whole input of the tool, as plain text.";
    const JsonValue* format = tool.Find("format");
    const std::string definition = format == nullptr ? "" : TextOf(*format, "definition");
    if (!definition.empty()) {
      input +=
          fmt::format(" It must match this {} grammar:\n{}", TextOf(*format, "syntax"), definition);
    }
    return fmt::format(
        R"({{"name": {}, "description": {}, "parameters": {{"type": "object", "properties": )"
        R"({{"{}": {{"type": "string", "description": {}}}}}, "required": ["{}"]}}}})",
        PythonJsonString(name), PythonJsonString(TextOf(tool, "description")), kCustomInput,
        PythonJsonString(input), kCustomInput);
  }

  FieldReader& reader_;
  const std::string_view source_;
  ResponsesTools result_;
};

// Returns the model's name of a tool that a choice names.
std::string FlatNameOf(const JsonValue& tool) {
  return FlatToolName(TextOf(tool, "namespace"), TextOf(tool, "name"));
}

bool HasTool(const ResponsesTools& tools, std::string_view flat_name) {
  return std::any_of(tools.tools.begin(), tools.tools.end(),
                     [&](const ToolSpec& tool) { return tool.name == flat_name; });
}

// Returns the allowed tools that the model knows; tools that only OpenAI runs may be among them.
std::vector<std::string> AllowedTools(FieldReader& reader, const JsonValue& choice,
                                      const ResponsesTools& tools) {
  const JsonValue* list = choice.Find("tools");
  if (list == nullptr || !list->IsArray()) {
    reader.Fail("tool_choice.tools", "a list of tools",
                list == nullptr ? "nothing" : DescribeFound(*list));
    return {};
  }
  std::vector<std::string> names;
  for (const JsonValue& tool : list->items) {
    std::string name = FlatNameOf(tool);
    if (HasTool(tools, name)) names.push_back(std::move(name));
  }
  if (names.empty()) reader.Fail("tool_choice.tools", "the name of one of the tools", "none");
  return names;
}

}  // namespace

std::string FlatToolName(std::string_view space, std::string_view name) {
  return space.empty() ? std::string(name) : fmt::format("{}__{}", space, name);
}

ResponsesTools ReadResponsesTools(FieldReader& reader, std::string_view source,
                                  const RequestLimits& limits) {
  const JsonValue* list = reader.Find("tools");
  if (list == nullptr) return {};
  ToolReader tools(reader, source);
  tools.ReadList(*list, "tools", "");
  ResponsesTools result = tools.Take();
  if (result.tools.size() > limits.max_tools) {
    reader.Fail("tools", fmt::format("at most {}", limits.max_tools),
                fmt::format("{}", result.tools.size()));
  }
  return result;
}

ToolChoice ReadResponsesToolChoice(FieldReader& reader, const ResponsesTools& tools) {
  using Kind = ToolChoice::Kind;
  const JsonValue* choice = reader.Find("tool_choice");
  if (choice == nullptr) return {};
  const std::string type = TextOf(*choice, "type");
  const bool is_allowed = type == "allowed_tools";
  const std::string mode = is_allowed           ? TextOf(*choice, "mode")
                           : choice->IsString() ? choice->text
                                                : "";
  // The model may call any tool or none. The list of tools stays, and with it the beginning of the
  // prompt.
  if (mode == "auto") return {};
  if (mode == "none") return {.kind = Kind::kNone};
  if (mode == "required") {
    return {
        .kind = Kind::kRequired,
        .allowed = is_allowed ? AllowedTools(reader, *choice, tools) : std::vector<std::string>()};
  }
  if (type != "function" && type != "custom") {
    reader.Fail("tool_choice", "none, auto, required, or a function or custom tool", *choice);
    return {};
  }
  std::string name = FlatNameOf(*choice);
  if (!HasTool(tools, name)) {
    reader.Fail("tool_choice.name", "the name of one of the tools",
                PythonJsonString(TextOf(*choice, "name")));
  }
  return {.kind = Kind::kNamed, .name = std::move(name)};
}

}  // namespace fathom
