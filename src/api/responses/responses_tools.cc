#include "api/responses/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "api/common/other_endpoint.h"
#include "chat/custom_tool.h"
#include "chat/messages.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// A tool that OpenAI has defined and the client runs. Its name is its type.
struct ClientRunFunction {
  std::string_view type;
  ToolKind kind;
  std::string_view description;
  std::string_view parameters;  // JSON
};

constexpr ClientRunFunction kClientRunFunctions[] = {
    {"local_shell", ToolKind::kLocalShell, "Runs a command on the machine of the user.",
     R"json({"type": "object", "properties": {
"command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."},
"env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables to set."},
"working_directory": {"type": "string"},
"timeout_ms": {"type": "integer"},
"user": {"type": "string", "description": "The user to run it as."}},
"required": ["command"]})json"},
    {"shell", ToolKind::kShell, "Runs commands in a shell, which may run them at once.",
     R"json({"type": "object", "properties": {
"commands": {"type": "array", "items": {"type": "string"}},
"timeout_ms": {"type": "integer", "description": "For each command."},
"max_output_length": {"type": "integer", "description": "Characters of output to return."}},
"required": ["commands"]})json"},
    {"apply_patch", ToolKind::kApplyPatch, "Creates, changes or deletes one file.",
     R"json({"type": "object", "properties": {
"type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
"path": {"type": "string", "description": "Path of the file, relative to the workspace."},
"diff": {"type": "string", "description": "V4A diff: sections that begin with @@ and a line of context, then lines that begin with a blank (kept), - (removed) or + (added); create_file: only lines with +. Not for delete_file."}},
"required": ["type", "path"]})json"},
};

const ClientRunFunction* FindClientRunFunction(std::string_view type) {
  const auto* found = std::ranges::find(kClientRunFunctions, type, &ClientRunFunction::type);
  return found == std::end(kClientRunFunctions) ? nullptr : found;
}

constexpr std::string_view kToolSearch = "tool_search";

// Agents offer these tools to every server.
constexpr std::string_view kDroppedTools[] = {
    "web_search",       "web_search_2025_08_26",         "web_search_preview",
    "image_generation", "web_search_preview_2025_03_11", kToolSearch};

constexpr std::string_view kServerRunTools[] = {"code_interpreter", "file_search", "mcp"};
constexpr std::string_view kImageTools[] = {"computer_use_preview", "computer"};

bool IsIn(std::span<const std::string_view> types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

// Returns whether OpenAI would run the shell, in a container.
bool IsHostedShell(const JsonValue& tool) {
  const JsonValue* environment = tool.Find("environment");
  return tool.FindText("type") == "shell" && environment != nullptr && !environment->IsNull() &&
         environment->FindText("type") != "local";
}

class ToolReader {
 public:
  ToolReader(FieldReader& reader, std::string_view source, std::size_t max_tools)
      : reader_(reader), source_(source), max_tools_(max_tools) {}

  void ReadList(const JsonValue& list, const std::string& path, const std::string& space) {
    reader_.ReadItems(
        list, path, "a list of tools",
        [&](const JsonValue& tool, const std::string& place) { ReadTool(tool, place, space); });
  }

  // Tools are deferred if the client searches for them. A search that OpenAI would run does not run
  // here, so all tools that it could find are offered.
  ResponsesTools Take() {
    const bool client_searches = result_.client_tools.contains(kToolSearch);
    for (ToolSpec& tool : result_.tools) tool.is_deferred = tool.is_deferred && client_searches;
    return std::move(result_);
  }

 private:
  void ReadTool(const JsonValue& tool, const std::string& path, const std::string& space) {
    const JsonValue* type = tool.Find("type");
    for (const auto& [field, endpoint] :
         {std::pair("function", "/v1/chat/completions"),
          std::pair("custom", "/v1/chat/completions"), std::pair("input_schema", "/v1/messages")}) {
      if (tool.Find(field) == nullptr || tool.Find("parameters") != nullptr) continue;
      return reader_.Fail(OtherEndpointError(fmt::format("{}.{}", path, field),
                                             "a tool with this field", endpoint,
                                             "name and parameters beside the type"));
    }
    if (type == nullptr || !type->IsString()) {
      reader_.Fail(path, "an object with a type", tool);
    } else if (type->text() == "function" || type->text() == "custom") {
      AddTool(tool, path, space, type->text() == "custom");
    } else if (type->text() == "namespace" && space.empty()) {
      const std::string name = ReadName(tool, path);
      const JsonValue* inner = tool.Find("tools");
      if (inner == nullptr || (inner->IsArray() && inner->items().empty())) {
        return reader_.Fail(path + ".tools", "a list of at least one tool",
                            inner == nullptr ? "nothing" : "an empty list");
      }
      ReadList(*inner, path + ".tools", name);
    } else if (IsHostedShell(tool)) {
      reader_.Refuse(
          "{}.environment: this server runs no shells; only the local one of the client can be "
          "offered",
          path);
    } else if (const ClientRunFunction* known = FindClientRunFunction(type->text())) {
      result_.tools.push_back({.name = std::string(type->text()),
                               .function_json = fmt::format(
                                   R"({{"name": "{}", "description": "{}", "parameters": {}}})",
                                   known->type, known->description, known->parameters),
                               .is_published = true,
                               .path = path});
      result_.client_tools[std::string(type->text())] = {.name = std::string(type->text()),
                                                         .kind = known->kind};
    } else if (type->text() == kToolSearch && tool.FindText("execution") == "client") {
      AddToolSearch(tool, path);
    } else if (IsIn(kDroppedTools, type->text())) {
      if (result_.dropped.empty()) result_.dropped = path;
    } else if (IsIn(kServerRunTools, type->text())) {
      reader_.Refuse("{}.type: this server does not run {}; clients run their tools", path,
                     type->text());
    } else if (IsIn(kImageTools, type->text())) {
      reader_.Refuse("{}.type: the results of {} are images, and this model reads text only", path,
                     type->text());
    } else {
      reader_.Fail(path + ".type", "function, custom, namespace, local_shell, shell or apply_patch",
                   *type);
    }
    // Checked immediately: a tool of seventeen bytes takes hundreds of bytes here.
    if (result_.tools.size() > max_tools_) {
      reader_.Fail("tools", fmt::format("at most {}", max_tools_), "more");
    }
  }

  void AddToolSearch(const JsonValue& tool, const std::string& path) {
    FieldReader fields(tool, path);
    const JsonValue* parameters = fields.FindObject("parameters");
    const std::string description = fields.Text("description");
    if (fields.error()) return reader_.Fail(*fields.error());
    const std::string name(kToolSearch);
    result_.tools.push_back(
        {.name = name,
         .function_json = fmt::format(R"({{"name": "{}", "description": {}, "parameters": {}}})",
                                      name, PythonJsonString(description),
                                      parameters == nullptr ? "{}" : parameters->SourceIn(source_)),
         .path = path + ".parameters"});
    result_.client_tools[name] = {.name = name, .kind = ToolKind::kToolSearch};
  }

  void AddTool(const JsonValue& tool, const std::string& path, const std::string& space,
               bool is_custom) {
    const std::string name = ReadName(tool, path);
    const std::string flat_name = FlatToolName(space, name);
    CheckSchema(tool, path);
    if (is_custom) {
      result_.tools.push_back(ReadCustomTool(tool, flat_name, path + ".format"));
    } else {
      result_.tools.push_back({.name = flat_name,
                               .function_json = FlatFunction(tool, flat_name, source_),
                               .strict = IsStrict(tool),
                               .path = path + ".parameters"});
    }
    const JsonValue* deferred = tool.Find("defer_loading");
    result_.tools.back().is_deferred = deferred != nullptr && deferred->Truthy();
    if (is_custom || !space.empty()) {
      result_.client_tools[flat_name] = {
          .name = name,
          .space = space,
          .kind = is_custom ? ToolKind::kCustom : ToolKind::kFunction};
    }
  }

  ToolSpec ReadCustomTool(const JsonValue& tool, const std::string& name, std::string path) {
    CustomTool custom = {.name = name, .description = tool.FindText("description")};
    const JsonValue* format = tool.Find("format");
    if (format != nullptr && format->IsObject()) {  // CheckSchema reports other errors
      FieldReader fields(*format, path);
      custom.definition = format->FindText("definition");
      custom.syntax = format->FindText("syntax");
      static_cast<void>(fields.Text("definition"));
      const bool is_grammar =
          !fields.Text("syntax").empty() || format->FindText("type") == "grammar";
      if (is_grammar && custom.syntax != "lark" && custom.syntax != "regex") {
        fields.Fail("syntax", "lark or regex", fields.Find("syntax"));
      }
      if (fields.error()) reader_.Fail(*fields.error());
      if (custom.syntax == "lark") AddRelaxed(path, &result_.relaxed);
    }
    return CustomFunction(custom, path + ".definition");
  }

  std::string ReadName(const JsonValue& tool, const std::string& path) {
    const std::string_view name = tool.FindText("name");
    if (name.empty()) {
      reader_.Fail(path + ".name", "a string that is not empty", tool.Find("name"));
    }
    return std::string(name);
  }

  // The prompt shows these fields as the client wrote them, so only their types are checked.
  void CheckSchema(const JsonValue& tool, const std::string& path) {
    FieldReader fields(tool, path);
    static_cast<void>(fields.Text("description"));
    static_cast<void>(fields.FindObject("parameters"));
    static_cast<void>(fields.FindObject("format"));
    static_cast<void>(fields.Flag("strict"));
    if (fields.error()) reader_.Fail(*fields.error());
  }

  FieldReader& reader_;
  const std::string_view source_;
  const std::size_t max_tools_;
  ResponsesTools result_;
};

// Returns the model's name for a tool that a choice names.
std::string FlatName(const JsonValue& tool) {
  const std::string_view type = tool.FindText("type");
  if (type == kToolSearch || FindClientRunFunction(type) != nullptr) return std::string(type);
  return FlatToolName(tool.FindText("namespace"), tool.FindText("name"));
}

// A set, because a list of choices may be as long as the list of tools.
std::set<std::string_view> ToolNames(const ResponsesTools& tools) {
  std::set<std::string_view> names;
  for (const ToolSpec& tool : tools.tools) names.insert(tool.name);
  return names;
}

// Returns the allowed tools that the model knows; the list may also name tools that only OpenAI
// runs.
std::vector<std::string> AllowedTools(FieldReader& reader, const JsonValue& choice,
                                      const ResponsesTools& tools) {
  const JsonValue* list = choice.Find("tools");
  if (list == nullptr || !list->IsArray()) {
    reader.Fail("tool_choice.tools", "a list of tools", list);
    return {};
  }
  const std::set<std::string_view> known = ToolNames(tools);
  std::vector<std::string> names;
  for (const JsonValue& tool : list->items()) {
    std::string name = FlatName(tool);
    if (known.contains(name)) names.push_back(std::move(name));
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
  ToolReader tools(reader, source, limits.max_tools);
  tools.ReadList(*list, "tools", "");
  return tools.Take();
}

ToolChoice ReadResponsesToolChoice(FieldReader& reader, const ResponsesTools& tools) {
  using Kind = ToolChoice::Kind;
  const JsonValue* choice = reader.Find("tool_choice");
  if (choice == nullptr) return {};
  const std::string_view type = choice->FindText("type");
  const bool is_allowed = type == "allowed_tools";
  const std::string_view mode = is_allowed ? choice->FindText("mode") : choice->text();
  // The model may call any tool or none. The list of tools stays, and with it the beginning of the
  // prompt.
  const JsonValue* list = is_allowed ? choice->Find("tools") : nullptr;
  const bool names_none = list == nullptr || (list->IsArray() && list->items().empty());
  if (mode == "auto" && names_none) return {};
  if (mode == "none") return {.kind = Kind::kNone};
  if (mode == "auto" || mode == "required") {
    return {
        .kind = mode == "auto" ? Kind::kAuto : Kind::kRequired,
        .allowed = is_allowed ? AllowedTools(reader, *choice, tools) : std::vector<std::string>()};
  }
  if (type != "function" && type != "custom" && type != kToolSearch &&
      FindClientRunFunction(type) == nullptr) {
    reader.Fail("tool_choice", "none, auto, required, or a function or custom tool", *choice);
    return {};
  }
  std::string name = FlatName(*choice);
  if (!ToolNames(tools).contains(name)) {
    reader.Fail(
        "tool_choice.name", "the name of one of the tools",
        PythonJsonString(choice->Find("name") == nullptr ? type : choice->FindText("name")));
  }
  return {.kind = Kind::kNamed, .name = std::move(name)};
}

}  // namespace fathom::api
