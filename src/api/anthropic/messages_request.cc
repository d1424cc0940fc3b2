#include "api/anthropic/messages_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/common/generation_fields.h"
#include "json/json_value.h"

namespace fathom {
namespace {

void ReadMessagesGeneration(FieldReader& reader, const RequestLimits& limits,
                            GenerationFields* fields) {
  reader.ReadString("model", &fields->model);
  ReadSampling(reader, limits, &fields->sampling);
  ReadStopStrings(reader, "stop_sequences", limits, &fields->sampling);
  ReadMaxTokens(reader, "max_tokens", 1, &fields->sampling);
  reader.ReadBool("ignore_eos",
                  &fields->sampling.ignore_eos);  // an extension: load tests ask for lengths
  ReadCacheSalt(reader, &fields->cache_salt);
  reader.ReadBool("stream", &fields->stream);
  fields->sampling.top_logprobs.reset();  // the response has no field for them
}

// `path` is the field's name in errors.
void RefuseMessagesFormat(FieldReader& reader, std::string_view key, std::string_view path) {
  const JsonValue* format = reader.Find(key);
  if (format == nullptr) return;
  const JsonValue* type = format->Find("type");
  if (type == nullptr || !type->IsString()) {
    reader.Fail(key, "an object with a type", *format);
  } else if (type->text() == "json_schema") {
    reader.Fail({ErrorCode::kUnsupported, fmt::format("{}: not supported yet", path)});
  } else if (type->text() != "text") {
    reader.Fail(fmt::format("{}.type", key), "text or json_schema", *type);
  }
}

void ReadOutput(FieldReader& reader, EncodeOptions* encoding) {
  ReasoningFields reasoning;
  reasoning.thinks = ReadThinkingType(reader);
  reader.ReadObject("output_config", [&](FieldReader& output) {
    reasoning.effort = output.Text("effort");
    RefuseMessagesFormat(output, "format", "output_config.format");
  });
  RefuseMessagesFormat(reader, "output_format", "output_format");  // its older name
  ApplyReasoning(reasoning, encoding);
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

// The model does not know tools of other types: Anthropic runs them or has trained its own models
// on them.
bool IsFunction(const JsonValue& tool) {
  const JsonValue* type = tool.Find("type");
  return type == nullptr || type->IsNull() || (type->IsString() && type->text() == "custom");
}

void ReadTool(FieldReader& reader, const JsonValue& tool, const std::string& path,
              std::string_view body, ChatCompletionRequest* request) {
  if (!tool.IsObject()) {
    reader.Fail(path, "an object", tool);
    return;
  }
  if (!IsFunction(tool)) return;
  FieldReader fields(tool, path);
  std::string name = fields.Text("name");
  if (name.empty()) fields.Fail("name", "a string that is not empty", "nothing");
  static_cast<void>(fields.Text("description"));  // only its type is checked
  const JsonValue* schema = fields.Find("input_schema");
  if (schema == nullptr || !schema->IsObject()) {
    fields.Fail("input_schema", "an object", schema == nullptr ? "nothing" : schema->Describe());
  }
  if (fields.error()) {
    reader.Fail(*fields.error());
    return;
  }
  if (request->strict_field.empty() && IsStrict(tool)) request->strict_field = path + ".strict";
  request->chat.tools.push_back(
      {.name = std::move(name), .function_json = FunctionJson(tool, body)});
}

void ReadMessagesTools(FieldReader& reader, const RequestLimits& limits, std::string_view body,
                       ChatCompletionRequest* request) {
  CheckToolCount(reader, "tools", limits);
  reader.ReadList("tools", "a list of tools", [&](const JsonValue& tool, const std::string& path) {
    ReadTool(reader, tool, path, body, request);
  });
}

// Reads tool_choice. The tools must have been read.
void ReadMessagesToolChoice(FieldReader& reader, ChatCompletionRequest* request) {
  const JsonValue* choice = reader.Find("tool_choice");
  if (choice == nullptr) return;
  FieldReader fields(*choice, "tool_choice");
  const std::string type = fields.Text("type");
  request->parallel_tool_calls = !fields.Flag("disable_parallel_tool_use");
  std::vector<ToolSpec>& tools = request->chat.tools;
  ToolChoice& read = request->tool_choice;
  if (type == "none") {
    read.kind = ToolChoice::Kind::kNone;
    tools.clear();
  } else if (type == "any") {
    read.kind = ToolChoice::Kind::kRequired;
    if (tools.empty()) fields.Fail("type", "auto or none without tools", "\"any\"");
  } else if (type == "tool") {
    read.kind = ToolChoice::Kind::kNamed;
    fields.ReadString("name", &read.name);
    const bool is_known = std::any_of(tools.begin(), tools.end(),
                                      [&](const ToolSpec& tool) { return tool.name == read.name; });
    const JsonValue* name = fields.Find("name");
    if (!is_known) {
      fields.Fail("name", "the name of one of the tools",
                  name == nullptr ? "nothing" : name->Describe());
    }
  } else if (type != "auto") {
    const JsonValue* found = fields.Find("type");
    fields.Fail("type", "auto, any, tool or none",
                found == nullptr ? "nothing" : found->Describe());
  }
  if (fields.error()) reader.Fail(*fields.error());
}

}  // namespace

Result<ChatCompletionRequest> ParseMessagesRequest(const ApiBody& body, const RequestLimits& limits,
                                                   const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  ChatCompletionRequest request = DefaultChat(defaults);
  FieldReader reader(*json);
  ReadMessagesGeneration(reader, limits, &request.generation);
  ReadOutput(reader, &request.encoding);
  ReadMessagesTools(reader, limits, body.text, &request);
  ReadMessagesToolChoice(reader, &request);
  request.chat.messages = ReadConversation(reader, body.text, defaults.stable_system);
  if (reader.error()) return Unexpected(*reader.error());
  return request;
}

}  // namespace fathom
