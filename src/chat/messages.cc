#include "chat/messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "chat/custom_tool.h"
#include "chat/encoder.h"
#include "chat/literals.h"
#include "chat/named_results.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

// The older name of the role tool, from when calls had no ids: a result answers the call before it.
constexpr std::string_view kLegacyToolRole = "function";

// Reads fields and keeps the first error; every function returns a usable value after an error, so
// that the caller checks once.
class MessageReader {
 public:
  MessageReader(std::string_view source, const MessageOptions& options)
      : source_(source), options_(options), media_(options.media) {}

  const std::optional<Error>& error() const { return error_ ? error_ : media_.error(); }

  std::vector<Message> ReadMessages(const JsonValue& list, const std::string& path) {
    if (list.items().size() > kMaxMessages) {
      Fail(path, fmt::format("at most {} messages", kMaxMessages),
           fmt::format("{}", list.items().size()));
    }
    return ReadItems(list, path, "a list of messages", &MessageReader::ReadMessage);
  }

  std::vector<ToolSpec> ReadTools(const JsonValue* list, const std::string& path) {
    if (list == nullptr || list->IsNull()) return {};
    return ReadItems(*list, path, "a list of tools", &MessageReader::ReadTool);
  }

  // Returns the JSON text; nothing if the prompt shows none.
  std::optional<std::string> ReadResponseFormat(const JsonValue* format, const std::string& path) {
    if (format == nullptr || !format->Truthy()) return std::nullopt;
    if (!format->IsObject()) {
      Fail(path, "an object", format);
      return std::nullopt;
    }
    return Source(*format);
  }

  // `found`: nullptr if there is no value.
  void Fail(const std::string& path, std::string_view expected, const JsonValue* found) {
    Fail(path, expected, found == nullptr ? "nothing" : found->Describe());
  }
  void Fail(const std::string& path, std::string_view expected, const std::string& found) {
    if (error_) return;
    error_ =
        Error{ErrorCode::kInvalidArgument, fmt::format("{}: expected {}, found {}", path, expected,
                                                       ShortenedUtf8(found, kQuotedBytes))};
  }

 private:
  template <class Item>
  std::vector<Item> ReadItems(const JsonValue& list, const std::string& path,
                              std::string_view expected,
                              Item (MessageReader::*read)(const JsonValue&, const std::string&)) {
    std::vector<Item> items;
    if (!error_) items.reserve(list.items().size());
    if (!list.IsArray()) Fail(path, expected, &list);
    for (std::size_t i = 0; list.IsArray() && i < list.items().size() && !error_; ++i) {
      items.push_back((this->*read)(list.items()[i], fmt::format("{}[{}]", path, i)));
    }
    return items;
  }

  std::string Source(const JsonValue& value) const { return std::string(value.SourceIn(source_)); }

  // Returns a string, or "" if the key is absent or null.
  std::string ReadText(const JsonValue& object, std::string_view key, const std::string& path) {
    const JsonValue* value = object.Find(key);
    if (value == nullptr || value->IsNull()) return "";
    if (!value->IsString()) Fail(fmt::format("{}.{}", path, key), "a string", value);
    return std::string(value->text());
  }

  // Like ReadText, but an absent or null value is an error.
  std::string RequireText(const JsonValue& object, std::string_view key, const std::string& path) {
    const JsonValue* value = object.Find(key);
    if (value != nullptr && value->IsString()) return std::string(value->text());
    Fail(fmt::format("{}.{}", path, key), "a string", value);
    return "";
  }

  bool ReadFlag(const JsonValue& object, std::string_view key, const std::string& path) {
    const JsonValue* value = object.Find(key);
    if (value == nullptr || value->IsNull()) return false;
    if (value->kind() != JsonValue::Kind::kBool) {
      Fail(fmt::format("{}.{}", path, key), "true or false", value);
    }
    return value->boolean();
  }

  Message ReadMessage(const JsonValue& value, const std::string& path) {
    Message message;
    if (!value.IsObject()) {
      Fail(path, "an object", &value);
      return message;
    }
    message.role = ReadRole(value.Find("role"), path + ".role");
    media_.BeginMessage(message.role == Role::kAssistant);
    if (message.role == Role::kTool) {
      message.content = ReadToolContent(value.Find("content"), path + ".content");
      message.tool_call_id = ReadText(value, "tool_call_id", path);
      for (const char* const key : {"tool_name", "name"}) {
        if (message.tool_name.empty()) message.tool_name = value.FindText(key);
      }
    } else {
      ReadContent(value.Find("content"), path + ".content", &message);
    }
    ReadImages(value.Find("images"), path + ".images", &message);
    if (message.role == Role::kAssistant) {
      ReadReasoning(value, path, &message);
      message.tool_calls = ReadToolCalls(value.Find("tool_calls"), path + ".tool_calls");
      const JsonValue* call = value.Find("function_call");
      if (call != nullptr && !call->IsNull()) {
        message.tool_calls.push_back(ReadCall(*call, path + ".function_call"));
      }
    }
    message.tools = ReadTools(value.Find("tools"), path + ".tools");
    message.response_format =
        ReadResponseFormat(value.Find("response_format"), path + ".response_format");
    const JsonValue* task = value.Find("task");
    if (task != nullptr && !task->IsNull()) message.task = ReadTask(*task, path + ".task");
    message.leave_open = ReadFlag(value, "wo_eos", path);
    if (message.role == Role::kAssistant && ReadFlag(value, "prefix", path))
      message.leave_open = true;
    return message;
  }

  Role ReadRole(const JsonValue* value, const std::string& path) {
    if (value != nullptr && value->IsString()) {
      if (value->text() == kLegacyToolRole) return Role::kTool;
      const auto* found =
          std::find(std::begin(kRoleNames), std::end(kRoleNames), std::string_view(value->text()));
      if (found != std::end(kRoleNames)) {
        const Role role = static_cast<Role>(found - std::begin(kRoleNames));
        const bool is_system = role == Role::kDeveloper && options_.developer_is_system;
        return is_system ? Role::kSystem : role;
      }
    }
    Fail(path, fmt::format("one of {}", fmt::join(kRoleNames, ", ")), value);
    return Role::kUser;
  }

  std::string ReadTask(const JsonValue& value, const std::string& path) {
    if (value.IsString() && FindTask(value.text()) != nullptr) return std::string(value.text());
    Fail(path, "one of " + TaskNames(), &value);
    return "";
  }

  // Reads the content of any role but tool: a string, or parts. An assistant's parts may also be
  // reasoning or a refusal, whose text other servers distinguish.
  void ReadContent(const JsonValue* content, const std::string& path, Message* message) {
    if (content == nullptr || content->IsNull()) return;
    if (content->IsString()) {
      message->content = content->text();
      return;
    }
    if (!content->IsArray()) {
      Fail(path, "a string, a list of parts or null", content);
      return;
    }
    bool is_first = true;
    for (std::size_t i = 0; i < content->items().size() && !error_; ++i) {
      const JsonValue& part = content->items()[i];
      const std::string part_path = fmt::format("{}[{}]", path, i);
      const std::string type = ReadPartType(part, part_path);
      if (type == "thinking" && message->role == Role::kAssistant) {
        std::string& reasoning = message->reasoning_content;
        if (!reasoning.empty()) reasoning += kBlockJoiner;
        reasoning += ReadText(part, "thinking", part_path);
        continue;
      }
      if (!is_first) message->content += kBlockJoiner;
      is_first = false;
      const bool is_refusal = type == "refusal" && message->role == Role::kAssistant;
      message->content += is_refusal || IsTextPart(type)
                              ? RequireText(part, is_refusal ? "refusal" : "text", part_path)
                              : media_.Replace(type, part_path);
    }
  }

  // Reads the images that Ollama's clients send in addition to the text.
  void ReadImages(const JsonValue* images, const std::string& path, Message* message) {
    if (images == nullptr || images->IsNull()) return;
    if (!images->IsArray()) Fail(path, "a list of images", images);
    for (std::size_t i = 0; i < images->items().size() && !error_; ++i) {
      if (!message->content.empty()) message->content += kBlockJoiner;
      message->content += media_.Replace("image", fmt::format("{}[{}]", path, i));
    }
  }

  std::string ReadPartType(const JsonValue& part, const std::string& path) {
    if (!part.IsObject()) {
      Fail(path, "an object", &part);
      return "";
    }
    return ReadText(part, "type", path);
  }

  std::string ReadToolContent(const JsonValue* content, const std::string& path) {
    if (content == nullptr || content->IsNull()) return "";
    if (content->IsString()) return std::string(content->text());
    if (!content->IsArray()) return PythonJson(*content);
    std::string joined;
    for (std::size_t i = 0; i < content->items().size() && !error_; ++i) {
      const JsonValue& part = content->items()[i];
      const std::string part_path = fmt::format("{}[{}]", path, i);
      const std::string type = ReadPartType(part, part_path);
      if (i > 0) joined += kBlockJoiner;
      joined += IsTextPart(type) ? RequireText(part, "text", part_path)
                                 : fmt::format("[Unsupported {}]", type);
    }
    return joined;
  }

  void ReadReasoning(const JsonValue& value, const std::string& path, Message* message) {
    std::string text = ReadText(value, "reasoning_content", path);
    std::string other = ReadText(value, "reasoning", path);
    if (text.empty()) text = std::move(other);
    if (text.empty()) text = ReadText(value, "thinking", path);
    if (!text.empty()) {
      message->reasoning_content = std::move(text);
      return;
    }
    const JsonValue* details = value.Find("reasoning_details");
    if (details == nullptr || !details->IsArray()) return;
    for (std::size_t i = 0; i < details->items().size(); ++i) {
      message->reasoning_content +=
          ReadText(details->items()[i], "text", fmt::format("{}.reasoning_details[{}]", path, i));
    }
  }

  std::vector<ToolCall> ReadToolCalls(const JsonValue* list, const std::string& path) {
    if (list == nullptr || list->IsNull()) return {};
    n_calls_ += list->items().size();
    if (n_calls_ > kMaxMessages) {
      Fail(path, fmt::format("at most {} tool calls in all messages", kMaxMessages), "more");
    }
    return ReadItems(*list, path, "a list of tool calls", &MessageReader::ReadToolCall);
  }

  // Reads the object {"function": {...}} or {"custom": {...}} of a tool or a call. A tool may omit
  // the object and have its fields beside the type, as in responses, and may omit the type as well.
  // `path` becomes the path of the fields; nullptr after an error.
  const JsonValue* ReadKind(const JsonValue& value, bool is_tool, std::string* path,
                            bool* is_custom) {
    const JsonValue* type = value.Find("type");
    *is_custom = value.FindText("type") == "custom";
    if (type != nullptr && !type->IsNull() && !*is_custom && value.FindText("type") != "function") {
      Fail(*path + ".type", "function or custom", type);
    }
    const std::string_view key = *is_custom ? "custom" : "function";
    const JsonValue* object = value.Find(key);
    if (is_tool && object == nullptr && value.Find("name") != nullptr) return &value;
    path->append(".").append(key);
    if (object != nullptr && object->IsObject()) return object;
    Fail(*path, "an object", object);
    return nullptr;
  }

  ToolCall ReadToolCall(const JsonValue& value, const std::string& path) {
    std::string place = path;
    bool is_custom = false;
    const JsonValue* object = ReadKind(value, /*is_tool=*/false, &place, &is_custom);
    if (object == nullptr) return {};
    ToolCall call = ReadCall(*object, place);
    if (is_custom) call.arguments = CustomArguments(ReadText(*object, "input", place));
    std::string id = ReadText(value, "id", path);
    if (!id.empty()) call.id = std::move(id);
    return call;
  }

  // The name may be empty: a client cannot remove the rest of a broken answer from its history.
  ToolCall ReadCall(const JsonValue& function, const std::string& path) {
    return {.id = ReadText(function, "id", path),
            .name = ReadText(function, "name", path),
            .arguments = ReadArguments(function.Find("arguments"), source_)};
  }

  std::string ReadName(const JsonValue& function, const std::string& path) {
    const std::string_view name = function.FindText("name");
    if (name.empty()) Fail(path + ".name", "a string that is not empty", function.Find("name"));
    return std::string(name);
  }

  ToolSpec ReadTool(const JsonValue& value, const std::string& path) {
    if (!value.IsObject()) {
      Fail(path, "an object", &value);
      return {};
    }
    std::string place = path;
    bool is_custom = false;
    const JsonValue* function = ReadKind(value, /*is_tool=*/true, &place, &is_custom);
    if (function == nullptr) return {};
    if (is_custom) return ReadCustomTool(*function, place);
    CheckSchema(*function, place);
    const std::string name = ReadName(*function, place);
    return {.name = name,
            .function_json =
                function == &value ? FlatFunction(value, name, source_) : Source(*function),
            .strict = ReadFlag(*function, "strict", place),
            .path = place + ".parameters"};
  }

  // The grammar is in an object of its own, or, as in responses, beside the type of the format.
  ToolSpec ReadCustomTool(const JsonValue& tool, const std::string& path) {
    static_cast<void>(ReadText(tool, "description", path));
    const JsonValue* format = tool.Find("format");
    const bool has_format = format != nullptr && !format->IsNull();
    if (has_format && !format->IsObject()) Fail(path + ".format", "an object", format);
    const JsonValue* grammar = has_format ? format->Find("grammar") : nullptr;
    std::string place = path + (grammar == nullptr ? ".format" : ".format.grammar");
    if (grammar == nullptr) grammar = format;
    const std::string name = ReadName(tool, path);
    CustomTool custom = {.name = name, .description = tool.FindText("description")};
    if (has_format && format->FindText("type") != "text") {
      custom.syntax = grammar->FindText("syntax");
      custom.definition = grammar->FindText("definition");
      if (custom.syntax != "lark" && custom.syntax != "regex") {
        Fail(place + ".syntax", "lark or regex", grammar->Find("syntax"));
      }
    }
    return CustomFunction(custom, place + ".definition");
  }

  // The prompt shows these fields as the client wrote them, so only their types are checked.
  void CheckSchema(const JsonValue& function, const std::string& path) {
    static_cast<void>(ReadText(function, "description", path));
    const JsonValue* parameters = function.Find("parameters");
    if (parameters != nullptr && !parameters->IsNull() && !parameters->IsObject()) {
      Fail(path + ".parameters", "an object", parameters);
    }
  }

  std::string_view source_;
  MessageOptions options_;
  MediaParts media_;
  std::size_t n_calls_ = 0;
  std::optional<Error> error_;
};

// Returns true if the client forbids tools: only the string "none" does.
bool ForbidsTools(const JsonValue* tool_choice) {
  return tool_choice != nullptr && tool_choice->IsString() && tool_choice->text() == "none";
}

// Returns false for {"type": "text"}, which demands no particular form.
bool AsksForText(const JsonValue* response_format) {
  return response_format != nullptr && response_format->FindText("type") == "text";
}

Result<JsonValue> ParseClientJson(std::string_view json, std::string_view what) {
  Result<JsonValue> value = ParseJson(json);
  if (!value) {
    const bool is_too_large = value.error().code == ErrorCode::kTooLarge;
    return MakeError(is_too_large ? ErrorCode::kTooLarge : ErrorCode::kInvalidArgument, "{}: {}",
                     what, value.error().message);
  }
  return value;
}

}  // namespace

void AppendParagraph(std::string_view text, std::string* to) {
  if (!to->empty() && !text.empty()) to->append(kBlockJoiner);
  to->append(text);
}

bool IsTextPart(std::string_view type) {
  return type == "text" || type == "input_text" || type == "output_text";
}

Result<ChatRequest> ParseChatRequest(std::string_view json, const MessageOptions& options) {
  const Result<JsonValue> root = ParseClientJson(json, "messages");
  if (!root) return Unexpected(root.error());
  return ReadChatRequest(*root, json, options);
}

Result<ChatRequest> ReadChatRequest(const JsonValue& root, std::string_view json,
                                    const MessageOptions& options) {
  MessageReader reader(json, options);
  ChatRequest request;
  if (!root.IsObject()) {
    request.messages = reader.ReadMessages(root, "messages");
  } else {
    const JsonValue* messages = root.Find("messages");
    if (messages == nullptr) {
      reader.Fail("messages", "a list of messages", nullptr);
    } else {
      request.messages = reader.ReadMessages(*messages, "messages");
    }
    const JsonValue* context = root.Find("context");
    if (context != nullptr && !context->IsNull()) {
      request.context = reader.ReadMessages(*context, "context");
    }
    request.tools = reader.ReadTools(root.Find("tools"), "tools");
    if (ForbidsTools(root.Find("tool_choice"))) request.tools.clear();
    const JsonValue* format = root.Find("response_format");
    if (!AsksForText(format)) {
      request.response_format = reader.ReadResponseFormat(format, "response_format");
    }
  }
  if (reader.error()) return Unexpected(*reader.error());
  PairNamedResults(&request.messages);
  return request;
}

std::string ReadArguments(const JsonValue* value, std::string_view source) {
  if (value == nullptr || value->IsNull()) return "{}";
  if (!value->IsString()) return std::string(value->SourceIn(source));
  if (value->text().empty()) return "{}";
  const Result<JsonValue> once = ParseJson(value->text());
  if (once && once->IsNull()) return "{}";
  if (once && once->IsString()) {
    const Result<JsonValue> twice = ParseJson(once->text());
    if (twice && twice->IsObject()) return std::string(once->text());
  }
  return std::string(value->text());
}

std::string FlatFunction(const JsonValue& tool, std::string_view name, std::string_view source) {
  std::string json;
  for (std::size_t i = 0; i < tool.items().size(); ++i) {
    const std::string_view key = tool.key(i);
    if (key == "type") continue;
    json += fmt::format(
        "{}{}: {}", json.empty() ? "{" : ", ", PythonJsonString(key),
        key == "name" ? PythonJsonString(name) : std::string(tool.items()[i].SourceIn(source)));
  }
  return json + "}";
}

Result<std::vector<ToolSpec>> ParseTools(std::string_view json, std::string_view path) {
  const Result<JsonValue> root = ParseClientJson(json, path);
  if (!root) return Unexpected(root.error());
  MessageReader reader(json, {});
  std::vector<ToolSpec> tools = reader.ReadTools(&*root, std::string(path));
  if (reader.error()) return Unexpected(*reader.error());
  return tools;
}

}  // namespace fathom::chat
