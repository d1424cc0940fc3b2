#include "api/anthropic/messages_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/common/other_endpoint.h"
#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

constexpr std::string_view kSearchOfTools = "tool_search_";

// A tool that Anthropic has defined and the client runs.
struct ClientRunTool {
  std::string_view type;    // without the date at its end
  std::string_view before;  // the first date with other parameters; empty: none
  std::string_view description;
  std::string_view parameters;  // JSON
};

constexpr std::string_view kOldEditor = R"json({"type": "object", "properties": {
"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
"path": {"type": "string", "description": "Absolute path of a file or directory."},
"file_text": {"type": "string", "description": "create: the content of the new file."},
"old_str": {"type": "string", "description": "str_replace: the text to replace; it must occur exactly once."},
"new_str": {"type": "string", "description": "str_replace: the new text. insert: the text to insert."},
"insert_line": {"type": "integer", "description": "insert: the line behind which to insert; 0 is the beginning."},
"view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: the first and the last line, from 1; -1 is the end."}},
"required": ["command", "path"]})json";

constexpr std::string_view kEditor = R"json({"type": "object", "properties": {
"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
"path": {"type": "string", "description": "Absolute path of a file or directory."},
"file_text": {"type": "string", "description": "create: the content of the new file."},
"old_str": {"type": "string", "description": "str_replace: the text to replace; it must occur exactly once."},
"new_str": {"type": "string", "description": "str_replace: the new text."},
"insert_line": {"type": "integer", "description": "insert: the line behind which to insert; 0 is the beginning."},
"insert_text": {"type": "string", "description": "insert: the text to insert."},
"view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: the first and the last line, from 1; -1 is the end."}},
"required": ["command", "path"]})json";

constexpr std::string_view kMemory = R"json({"type": "object", "properties": {
"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
"path": {"type": "string", "description": "Path below /memories; not for rename."},
"file_text": {"type": "string", "description": "create: the content of the file."},
"old_str": {"type": "string", "description": "str_replace: the text to replace; it must occur exactly once."},
"new_str": {"type": "string", "description": "str_replace: the new text."},
"insert_line": {"type": "integer", "description": "insert: the line behind which to insert; 0 is the beginning."},
"insert_text": {"type": "string", "description": "insert: the text to insert."},
"old_path": {"type": "string", "description": "rename: the path now."},
"new_path": {"type": "string", "description": "rename: the new path."},
"view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: the first and the last line, from 1."}},
"required": ["command"]})json";

constexpr std::string_view kOldComputer = R"json({"type": "object", "properties": {
"action": {"type": "string", "enum": ["key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click", "screenshot", "cursor_position"]},
"coordinate": {"type": "array", "items": {"type": "integer"}, "description": "x and y in pixels, for mouse_move and left_click_drag."},
"text": {"type": "string", "description": "key: the keys, as xdotool names them. type: the text."}},
"required": ["action"]})json";

constexpr std::string_view kComputer = R"json({"type": "object", "properties": {
"action": {"type": "string", "enum": ["key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up", "left_click", "left_click_drag", "right_click", "middle_click", "double_click", "triple_click", "scroll", "wait", "screenshot", "zoom"]},
"coordinate": {"type": "array", "items": {"type": "integer"}, "description": "x and y in pixels, where the action happens or ends."},
"start_coordinate": {"type": "array", "items": {"type": "integer"}, "description": "left_click_drag: where it begins."},
"text": {"type": "string", "description": "key, hold_key: the keys, as xdotool names them. type: the text. Clicks and scroll: keys held down."},
"duration": {"type": "number", "description": "hold_key, wait: seconds."},
"scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
"scroll_amount": {"type": "integer", "description": "scroll: clicks of the wheel."},
"region": {"type": "array", "items": {"type": "integer"}, "description": "zoom: x0, y0, x1, y1 in pixels, where the tool allows it."}},
"required": ["action"]})json";

// The first matching entry decides: an older version comes before the newer one.
constexpr ClientRunTool kClientRun[] = {
    {"bash_", "", "Runs a command in a shell that stays open between calls.",
     R"json({"type": "object", "properties": {
"command": {"type": "string", "description": "The command; not needed with restart."},
"restart": {"type": "boolean", "description": "true: start the shell anew."}},
"anyOf": [{"required": ["command"]}, {"required": ["restart"]}]})json"},
    {"text_editor_", "20250429", "Views, creates and edits text files.", kOldEditor},
    {"text_editor_", "", "Views, creates and edits text files.", kEditor},
    {"memory_", "", "Keeps files below /memories from one conversation to the next.", kMemory},
    {"computer_", "20250124", "Uses the screen, mouse and keyboard of a computer.", kOldComputer},
    {"computer_", "", "Uses the screen, mouse and keyboard of a computer.", kComputer},
};

// A tool that Anthropic runs.
struct ServerRunTool {
  std::string_view type;  // without the date at its end
  std::string_view lack;  // the reason why it does not exist here
};

constexpr ServerRunTool kServerRun[] = {
    {"web_search_", "cannot search the web"}, {"web_fetch_", "cannot fetch pages"},
    {"code_execution_", "runs no code"},      {"mcp_", "asks no other servers"},
    {kSearchOfTools, "searches no tools"},    {"advisor_", "asks no other models"},
};

const ServerRunTool* FindServerRun(std::string_view type) {
  const auto* found = std::ranges::find_if(
      kServerRun, [type](std::string_view prefix) { return type.starts_with(prefix); },
      &ServerRunTool::type);
  return found == std::end(kServerRun) ? nullptr : found;
}

// Claude Code offers this tool in place of the tools that it has not found yet. It cannot be
// called.
constexpr std::string_view kPlaceholder = "DeferredToolPlaceholder";

const ClientRunTool* FindClientRun(std::string_view type) {
  const auto* found =
      std::find_if(std::begin(kClientRun), std::end(kClientRun), [type](const ClientRunTool& tool) {
        return type.starts_with(tool.type) &&
               (tool.before.empty() || type.substr(tool.type.size()) < tool.before);
      });
  return found == std::end(kClientRun) ? nullptr : found;
}

// The size of the screen is a field of the tool, not of its calls.
std::string DescribeClientRun(const ClientRunTool& known, const JsonValue& tool) {
  std::string description(known.description);
  const auto size_of = [&tool](std::string_view key) {
    const JsonValue* size = tool.Find(key);
    return size == nullptr ? std::nullopt : size->AsInteger();
  };
  const auto width = size_of("display_width_px");
  const auto height = size_of("display_height_px");
  if (width && height) description += fmt::format(" The screen has {}x{} pixels.", *width, *height);
  return description;
}

// Returns the function object that the prompt shows, in the client's own text.
std::string FunctionJson(const JsonValue& tool, std::string_view body) {
  struct Key {
    std::string_view theirs;
    std::string_view shown;
  };
  std::string json;
  for (const auto& [theirs, shown] : {Key{"name", "name"}, Key{"description", "description"},
                                      Key{"input_schema", "parameters"}, Key{"strict", "strict"}}) {
    const JsonValue* value = tool.Find(theirs);
    if (value == nullptr || value->IsNull()) continue;
    if (theirs == "strict" && !IsStrict(tool)) continue;
    json += fmt::format("{}\"{}\": {}", json.empty() ? "{" : ", ", shown, value->SourceIn(body));
  }
  return json + "}";
}

class MessagesToolReader {
 public:
  MessagesToolReader(FieldReader& reader, std::string_view body) : reader_(reader), body_(body) {}

  void ReadTool(const JsonValue& tool, const std::string& path) {
    if (!tool.IsObject()) return reader_.Fail(path, "an object", tool);
    FieldReader fields(tool, path);
    const std::string type = fields.Text("type");
    const std::size_t n_before = tools_.tools.size();
    if (fields.Find("type") == nullptr || type == "custom") {
      ReadFunction(tool, path, fields);
    } else if (const ClientRunTool* known = FindClientRun(type)) {
      std::string name = fields.RequireText("name");
      tools_.tools.push_back(
          {.name = name,
           .function_json = fmt::format(
               R"({{"name": {}, "description": {}, "parameters": {}}})", PythonJsonString(name),
               PythonJsonString(DescribeClientRun(*known, tool)), known->parameters),
           .is_published = true,
           .path = path});
    } else if (const ServerRunTool* dropped = FindServerRun(type)) {
      Drop(*dropped, fields.Text("name"), path);
    } else {
      FailType(type, path, fields);
    }
    const bool is_deferred = fields.Flag("defer_loading");
    if (tools_.tools.size() > n_before) {
      ToolSpec& added = tools_.tools.back();
      added.is_deferred = is_deferred || added.name == kPlaceholder;
    }
    if (fields.error()) reader_.Fail(*fields.error());
  }

  // A search that Anthropic would run does not run here. So all tools that it could find are
  // offered, and so are deferred tools if no tool could search for them.
  MessagesTools Take() {
    const bool none_searches =
        searches_ || std::all_of(tools_.tools.begin(), tools_.tools.end(),
                                 [](const ToolSpec& tool) { return tool.is_deferred; });
    for (ToolSpec& tool : tools_.tools) {
      if (none_searches && tool.name != kPlaceholder) tool.is_deferred = false;
    }
    return std::move(tools_);
  }

 private:
  void ReadFunction(const JsonValue& tool, const std::string& path, FieldReader& fields) {
    if (fields.Text("name").empty()) {
      fields.Fail("name", "a string that is not empty", "nothing");
    }
    static_cast<void>(fields.Text("description"));  // only its type is checked
    static_cast<void>(fields.Flag("strict"));
    const JsonValue* schema = fields.Find("input_schema");
    if (schema == nullptr || !schema->IsObject()) {
      fields.Fail("input_schema", "an object", schema == nullptr ? "nothing" : schema->Describe());
    }
    if (!fields.error()) tools_.tools.push_back(MessagesFunction(tool, body_, path));
  }

  void Drop(const ServerRunTool& tool, std::string name, const std::string& path) {
    if (tool.type == kSearchOfTools) searches_ = true;
    std::string reason = fmt::format(
        "{}.type: this server {}, and drops such a tool only beside others", path, tool.lack);
    if (tools_.dropped.empty()) tools_.only_dropped = reason;
    tools_.dropped.emplace(std::move(name), std::move(reason));
  }

  static void FailType(const std::string& type, const std::string& path, FieldReader& fields) {
    if (type == "function") {
      fields.Fail(OtherEndpointError(path + ".type", "a tool of the type function",
                                     "/v1/chat/completions", "a name and an input_schema"));
    } else {
      fields.Fail("type", "custom, bash_*, text_editor_*, memory_* or computer_*",
                  PythonJsonString(type));
    }
  }

  FieldReader& reader_;
  const std::string_view body_;
  MessagesTools tools_;
  bool searches_ = false;  // offers a search of tools that Anthropic would run
};

void ReadNamedTool(FieldReader& fields, const MessagesTools& tools, ToolChoice* choice) {
  choice->kind = ToolChoice::Kind::kNamed;
  fields.ReadString("name", &choice->name);
  const auto dropped = tools.dropped.find(choice->name);
  const bool is_known =
      std::any_of(tools.tools.begin(), tools.tools.end(),
                  [&](const ToolSpec& tool) { return tool.name == choice->name; });
  if (is_known) return;
  if (dropped != tools.dropped.end()) {
    return fields.Refuse("{}", dropped->second);
  }
  const JsonValue* name = fields.Find("name");
  fields.Fail("name", "the name of one of the tools",
              name == nullptr ? "nothing" : name->Describe());
}

}  // namespace

ToolSpec MessagesFunction(const JsonValue& tool, std::string_view body, const std::string& path) {
  return {.name = std::string(tool.FindText("name")),
          .function_json = FunctionJson(tool, body),
          .strict = IsStrict(tool),
          .path = path + ".input_schema"};
}

MessagesTools ReadMessagesTools(FieldReader& reader, const RequestLimits& limits,
                                std::string_view body) {
  CheckToolCount(reader, "tools", limits);
  MessagesToolReader tools(reader, body);
  reader.ReadList("tools", "a list of tools", [&](const JsonValue& tool, const std::string& path) {
    tools.ReadTool(tool, path);
  });
  MessagesTools read = tools.Take();
  const JsonValue* servers = reader.Find("mcp_servers");
  if (servers != nullptr && servers->Truthy() && read.only_dropped.empty()) {
    read.only_dropped = "mcp_servers: this server asks no other servers";
  }
  return read;
}

ToolChoice ReadMessagesToolChoice(FieldReader& reader, const MessagesTools& tools, bool* parallel) {
  ToolChoice read;
  if (const JsonValue* choice = reader.Find("tool_choice")) {
    FieldReader fields(*choice, "tool_choice");
    const std::string type = fields.Text("type");
    *parallel = !fields.Flag("disable_parallel_tool_use");
    if (type == "none") {
      read.kind = ToolChoice::Kind::kNone;
    } else if (type == "any") {
      read.kind = ToolChoice::Kind::kRequired;
      if (tools.tools.empty() && tools.only_dropped.empty()) {
        fields.Fail("type", "auto or none without tools", "\"any\"");
      }
    } else if (type == "tool") {
      ReadNamedTool(fields, tools, &read);
    } else if (type != "auto") {
      const JsonValue* found = fields.Find("type");
      fields.Fail("type", "auto, any, tool or none",
                  found == nullptr ? "nothing" : found->Describe());
    }
    if (fields.error()) reader.Fail(*fields.error());
  }
  // A request that offers nothing but a search would be answered without a search.
  if (tools.tools.empty() && !tools.only_dropped.empty() && read.kind != ToolChoice::Kind::kNone) {
    reader.Refuse("{}", tools.only_dropped);
  }
  return read;
}

}  // namespace fathom::api
