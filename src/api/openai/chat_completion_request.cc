#include "api/openai/openai_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/common/generation_fields.h"
#include "api/common/other_endpoint.h"
#include "api/common/reasoning_fields.h"
#include "chat/messages.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// Reads the name in {"function": {"name": ...}}, {"custom": {"name": ...}} or, in responses and in
// the legacy form, {"name": ...}.
std::string ReadChosenName(FieldReader& reader, std::string_view key, const JsonValue& choice,
                           bool is_legacy) {
  const std::string_view kind = choice.FindText("type") == "custom" ? "custom" : "function";
  const JsonValue* object = is_legacy ? &choice : choice.Find(kind);
  const bool is_flat = is_legacy || (object == nullptr && choice.Find("name") != nullptr);
  if (is_flat) object = &choice;
  const JsonValue* name = object == nullptr ? nullptr : object->Find("name");
  if (name != nullptr && name->IsString()) return std::string(name->text());
  reader.Fail(is_flat ? fmt::format("{}.name", key) : fmt::format("{}.{}.name", key, kind),
              "the name of a tool", name);
  return "";
}

// Reads {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}.
void ReadAllowedTools(FieldReader& reader, const JsonValue& value, ToolChoice* choice) {
  const std::string path = "tool_choice.allowed_tools";
  const JsonValue* allowed = value.Find("allowed_tools");
  const JsonValue* mode = allowed == nullptr ? nullptr : allowed->Find("mode");
  const std::string_view name = mode == nullptr ? "" : allowed->FindText("mode");
  if (name != "auto" && name != "required")
    return reader.Fail(path + ".mode", "auto or required", mode);
  const JsonValue* tools = allowed->Find("tools");
  const bool names_none = tools == nullptr || (tools->IsArray() && tools->items().empty());
  if (name == "auto" && names_none) return;
  if (tools == nullptr || !tools->IsArray() || tools->items().empty()) {
    return reader.Fail(path + ".tools", "a list of tools", tools);
  }
  choice->kind = name == "auto" ? ToolChoice::Kind::kAuto : ToolChoice::Kind::kRequired;
  reader.ReadItems(*tools, path + ".tools", "a list of tools",
                   [&](const JsonValue& tool, const std::string& place) {
                     choice->allowed.push_back(ReadChosenName(reader, place, tool, false));
                   });
}

// Reads tool_choice, or function_call, its older name, which has no "required".
void ReadToolChoice(FieldReader& reader, ToolChoice* choice) {
  const bool is_legacy = reader.Find("tool_choice") == nullptr;
  const std::string_view key = is_legacy ? "function_call" : "tool_choice";
  const JsonValue* value = reader.Find(key);
  if (value == nullptr) return;
  using Kind = ToolChoice::Kind;
  if (!is_legacy && value->FindText("type") == "allowed_tools") {
    ReadAllowedTools(reader, *value, choice);
  } else if (value->IsObject()) {
    *choice = {.kind = Kind::kNamed, .name = ReadChosenName(reader, key, *value, is_legacy)};
  } else if (value->IsString() && value->text() == "none") {
    choice->kind = Kind::kNone;
  } else if (value->IsString() && value->text() == "required" && !is_legacy) {
    choice->kind = Kind::kRequired;
  } else if (!value->IsString() || value->text() != "auto") {
    reader.Fail(key, is_legacy ? "none, auto or a function" : "none, auto, required or a tool",
                *value);
  }
}

// Reads "functions", the older form of "tools" without the object around each function.
Status ReadFunctions(const JsonValue& body, std::string_view source,
                     ChatCompletionRequest* request) {
  const JsonValue* functions = body.Find("functions");
  if (functions == nullptr || !functions->Truthy()) return {};
  if (!functions->IsArray()) {
    return MakeError(ErrorCode::kInvalidArgument, "functions: expected a list, found {}",
                     DescribeFound(*functions));
  }
  if (!request->chat.tools.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "functions: expected none beside tools, found {} of them",
                     functions->items().size());
  }
  std::string tools;
  for (const JsonValue& function : functions->items()) {
    tools += fmt::format(R"({}{{"type": "function", "function": {}}})", tools.empty() ? "" : ", ",
                         function.SourceIn(source));
  }
  Result<std::vector<ToolSpec>> specs = ParseTools("[" + tools + "]", "functions");
  if (!specs) return Unexpected(specs.error());
  request->chat.tools = *std::move(specs);
  for (std::size_t i = 0; i < request->chat.tools.size(); ++i) {
    request->chat.tools[i].path = fmt::format("functions[{}].parameters", i);
  }
  request->legacy_functions = true;
  request->parallel_tool_calls = false;  // an answer has room for one call
  const ToolChoice& choice = request->tool_choice;
  const bool is_known =
      std::any_of(request->chat.tools.begin(), request->chat.tools.end(),
                  [&choice](const ToolSpec& tool) { return tool.name == choice.name; });
  const bool is_named = choice.kind == ToolChoice::Kind::kNamed;
  if (is_named && !is_known && body.Find("tool_choice") == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "function_call.name: expected the name of one of the functions, found {}",
                     PythonJsonString(choice.name));
  }
  return {};
}

void RefuseToolsOfMessages(FieldReader& reader) {
  const JsonValue* tools = reader.Find("tools");
  for (std::size_t i = 0; tools != nullptr && i < tools->items().size(); ++i) {
    const JsonValue& tool = tools->items()[i];
    if (tool.Find("input_schema") == nullptr || tool.Find("function") != nullptr) continue;
    return reader.Fail(OtherEndpointError(fmt::format("tools[{}].input_schema", i),
                                          "a tool with this field", "/v1/messages",
                                          "function.parameters"));
  }
}

// The parts of this API have no place for blocks of calls and results, which would be lost, and so
// would the system prompt beside the messages.
void RefuseBodyOfMessages(FieldReader& reader) {
  const JsonValue* system = reader.Find("system");
  if (system != nullptr && system->Truthy()) {
    return reader.Fail(
        OtherEndpointError("system", "this field", "/v1/messages", "messages of the role system"));
  }
  const JsonValue* messages = reader.Find("messages");
  for (std::size_t m = 0; messages != nullptr && m < messages->items().size(); ++m) {
    const JsonValue* content = messages->items()[m].Find("content");
    for (std::size_t p = 0; content != nullptr && p < content->items().size(); ++p) {
      const std::string_view type = content->items()[p].FindText("type");
      if (type != "tool_use" && type != "tool_result") continue;
      return reader.Fail(OtherEndpointError(fmt::format("messages[{}].content[{}].type", m, p),
                                            fmt::format("a block of the type {}", type),
                                            "/v1/messages",
                                            "tool_calls and messages of the role tool"));
    }
  }
}

// Lists the grammars of custom tools that only the prompt shows.
void NoteGrammars(FieldReader& reader, std::string* relaxed) {
  const JsonValue* tools = reader.Find("tools");
  for (std::size_t i = 0; tools != nullptr && i < tools->items().size(); ++i) {
    const JsonValue& tool = tools->items()[i];
    const JsonValue* custom = tool.Find("custom");
    const JsonValue* format = (custom == nullptr ? tool : *custom).Find("format");
    const JsonValue* grammar = format == nullptr ? nullptr : format->Find("grammar");
    if (grammar == nullptr) grammar = format;
    if (tool.FindText("type") != "custom" || grammar == nullptr) continue;
    if (grammar->FindText("syntax") != "lark") continue;
    AddRelaxed(fmt::format("tools[{}]{}.format", i, custom == nullptr ? "" : ".custom"), relaxed);
  }
}

void ForbidTools(ChatRequest* chat) {
  chat->tools.clear();
  for (Message& message : chat->messages) message.tools.clear();
}

// This is a text model: a request may ask only for text.
void CheckModalities(FieldReader& reader) {
  reader.ReadList("modalities", "a list", [&](const JsonValue& entry, const std::string& path) {
    if (!entry.IsString() || entry.text() != "text") reader.Fail(path, "\"text\"", entry);
  });
}

void ReadLogprobs(FieldReader& reader, SamplingParameters* sampling) {
  bool logprobs = sampling->top_logprobs.has_value();
  reader.ReadBool("logprobs", &logprobs);
  std::int64_t top_logprobs = sampling->top_logprobs.value_or(0);
  reader.ReadInteger("top_logprobs", {.low = 0, .high = kMaxTopLogprobs}, &top_logprobs);
  if (!logprobs && reader.Find("top_logprobs") != nullptr && top_logprobs > 0) {
    reader.Fail("logprobs", "true where top_logprobs is given", "false or nothing");
  }
  sampling->top_logprobs.reset();
  if (logprobs) sampling->top_logprobs = static_cast<int>(top_logprobs);
}

void ReadReasoning(FieldReader& reader, ChatCompletionRequest* request) {
  ReadReasoningFields(reader, &request->encoding);
  request->reasoning_budget = ReadReasoningBudget(reader);
  reader.ReadObject("reasoning", [&](FieldReader& reasoning) {
    if (reasoning.Flag("exclude")) request->include_reasoning = false;
  });
  reader.ReadBool("include_reasoning", &request->include_reasoning);
}

// Decides whether the model continues the last message, which must be its own, or begins a turn.
void ReadContinuation(FieldReader& reader, ChatRequest* chat, EncodeOptions* encoding) {
  const bool continues = reader.Flag("continue_final_message");
  if (continues && !chat->messages.empty()) {
    if (chat->messages.back().role != Role::kAssistant) {
      reader.Fail("continue_final_message", "an assistant message at the end", "another role");
    }
    chat->messages.back().leave_open = true;
  }
  reader.ReadBool("continue_reasoning", &encoding->continue_reasoning);
  const std::optional<bool> add_prompt = reader.FindFlag("add_generation_prompt");
  encoding->begins_turn = add_prompt.value_or(true);
  const bool is_answered =
      !chat->messages.empty() && chat->messages.back().role == Role::kAssistant;
  if (!is_answered && add_prompt == false) {
    reader.Refuse("add_generation_prompt: false is not supported");
  }
}

}  // namespace

Result<ChatCompletionRequest> ParseChatCompletionRequest(const ApiBody& body,
                                                         const RequestLimits& limits,
                                                         const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  ChatCompletionRequest request = DefaultChat(defaults);
  FieldReader reader(*json);
  RefuseOtherEndpoint(reader, "messages");
  ReadGenerationFields(reader, limits, &request.generation);
  request.generation.openai_rules = defaults.openai_strict_rules;
  const int n_choices = request.generation.n_choices;
  std::int64_t best_of = n_choices;  // only completions choose among their answers
  reader.ReadInteger("best_of", {.low = n_choices, .high = n_choices}, &best_of);
  CheckToolCount(reader, "tools", limits);
  RefuseToolsOfMessages(reader);
  RefuseBodyOfMessages(reader);
  CheckToolCount(reader, "functions", limits);
  CheckModalities(reader);
  ReadLogprobs(reader, &request.generation.sampling);
  ReadReasoning(reader, &request);
  ReadToolChoice(reader, &request.tool_choice);
  reader.ReadBool("parallel_tool_calls", &request.parallel_tool_calls);
  reader.ReadBool("stop_in_reasoning", &request.stop_in_reasoning);
  if (reader.error()) return Unexpected(*reader.error());

  Result<ChatRequest> chat = ReadChatRequest(*json, body.text, {.media = defaults.media});
  if (!chat) return Unexpected(chat.error());
  request.chat = *std::move(chat);
  request.chat.context.clear();  // belongs to the encoder; a server has no such context
  const Status functions = ReadFunctions(*json, body.text, &request);
  if (!functions) return Unexpected(functions.error());
  NoteGrammars(reader, &request.generation.relaxed);
  if (request.tool_choice.kind == ToolChoice::Kind::kNone) ForbidTools(&request.chat);
  if (request.chat.messages.empty()) {
    reader.Fail("messages", "at least one message", "none");
  }
  ReadContinuation(reader, &request.chat, &request.encoding);
  if (reader.error()) return Unexpected(*reader.error());
  return request;
}

}  // namespace fathom::api
