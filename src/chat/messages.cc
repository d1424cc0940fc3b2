#include "chat/messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "chat/encoder.h"
#include "chat/literals.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// The name of the role tool when calls had no ids: a result answers the call before it.
constexpr std::string_view kLegacyToolRole = "function";

// Reads fields and keeps the first error; every function returns a usable value after an error, so
// that the caller checks once.
class MessageReader {
 public:
  MessageReader(std::string_view source, const MessageOptions& options)
      : source_(source), options_(options) {}

  const std::optional<Error>& error() const { return error_; }

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

  // Returns the JSON text; nothing if there is none to show.
  std::optional<std::string> ReadResponseFormat(const JsonValue* format, const std::string& path) {
    if (format == nullptr || !format->Truthy()) return std::nullopt;
    if (!format->IsObject()) {
      Fail(path, "an object", format);
      return std::nullopt;
    }
    return Source(*format);
  }

  // `found`: nullptr where there is nothing.
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

  // A string, or "" if the key is absent or null.
  std::string ReadText(const JsonValue& object, std::string_view key, const std::string& path) {
    const JsonValue* value = object.Find(key);
    if (value == nullptr || value->IsNull()) return "";
    if (!value->IsString()) Fail(fmt::format("{}.{}", path, key), "a string", value);
    return std::string(value->text());
  }

  // Likewise, but absent or null is an error.
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
    if (message.role == Role::kTool) {
      message.content = ReadToolContent(value.Find("content"), path + ".content");
      message.tool_call_id = ReadText(value, "tool_call_id", path);
    } else {
      ReadContent(value.Find("content"), path + ".content", &message);
    }
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
    message.wo_eos = ReadFlag(value, "wo_eos", path);
    if (message.role == Role::kAssistant && ReadFlag(value, "prefix", path)) message.wo_eos = true;
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

  // Reads the content of any role but tool: a string, or parts that are all text (an assistant's
  // may also be reasoning or a refusal, whose text other servers tell apart).
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
        message->reasoning_content += ReadText(part, "thinking", part_path);
        continue;
      }
      const bool is_refusal = type == "refusal" && message->role == Role::kAssistant;
      if (!is_refusal && !IsTextType(type)) {
        Fail(part_path + ".type", "text, input_text or output_text (this model reads text only)",
             PythonJsonString(type));
      }
      if (!is_first) message->content += kBlockJoiner;
      is_first = false;
      message->content += RequireText(part, is_refusal ? "refusal" : "text", part_path);
    }
  }

  static bool IsTextType(std::string_view type) {
    return type == "text" || type == "input_text" || type == "output_text";
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
      joined += IsTextType(type) ? RequireText(part, "text", part_path)
                                 : fmt::format("[Unsupported {}]", type);
    }
    return joined;
  }

  void ReadReasoning(const JsonValue& value, const std::string& path, Message* message) {
    std::string text = ReadText(value, "reasoning_content", path);
    std::string other = ReadText(value, "reasoning", path);
    if (text.empty()) text = std::move(other);
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

  // Reads the function object of a tool or a call, whose type may be left out; nullptr after an
  // error.
  const JsonValue* ReadFunction(const JsonValue& value, const std::string& path) {
    const JsonValue* type = value.Find("type");
    if (type != nullptr && !type->IsNull() && value.FindText("type") != "function") {
      Fail(path + ".type", "\"function\"", type);
    }
    const JsonValue* function = value.Find("function");
    if (function == nullptr || !function->IsObject()) {
      Fail(path + ".function", "an object", function);
      return nullptr;
    }
    return function;
  }

  ToolCall ReadToolCall(const JsonValue& value, const std::string& path) {
    const JsonValue* function = ReadFunction(value, path);
    if (function == nullptr) return {};
    ToolCall call = ReadCall(*function, path + ".function");
    std::string id = ReadText(value, "id", path);
    if (!id.empty()) call.id = std::move(id);
    return call;
  }

  ToolCall ReadCall(const JsonValue& function, const std::string& path) {
    return {.id = ReadText(function, "id", path),
            .name = ReadName(function, path),
            .arguments = ReadArguments(function.Find("arguments"))};
  }

  std::string ReadName(const JsonValue& function, const std::string& path) {
    const std::string_view name = function.FindText("name");
    if (name.empty()) Fail(path + ".name", "a string that is not empty", function.Find("name"));
    return std::string(name);
  }

  // Returns JSON text; a value that is not an object in any of the accepted forms is returned
  // unchanged, and the encoder shows it as one parameter.
  std::string ReadArguments(const JsonValue* value) const {
    if (value == nullptr || value->IsNull()) return "{}";
    if (!value->IsString()) return Source(*value);
    if (value->text().empty()) return "{}";
    const Result<JsonValue> once = ParseJson(value->text());
    if (once && once->IsNull()) return "{}";
    if (once && once->IsString()) {
      const Result<JsonValue> twice = ParseJson(once->text());
      if (twice && twice->IsObject()) return std::string(once->text());
    }
    return std::string(value->text());
  }

  ToolSpec ReadTool(const JsonValue& value, const std::string& path) {
    if (!value.IsObject()) {
      Fail(path, "an object", &value);
      return {};
    }
    const JsonValue* function = ReadFunction(value, path);
    if (function == nullptr) return {};
    const std::string place = path + ".function";
    CheckSchema(*function, place);
    return {.name = ReadName(*function, place),
            .function_json = Source(*function),
            .strict = ReadFlag(*function, "strict", place),
            .path = place + ".parameters"};
  }

  // The prompt shows these fields as the client wrote them, so only their types matter.
  void CheckSchema(const JsonValue& function, const std::string& path) {
    static_cast<void>(ReadText(function, "description", path));
    const JsonValue* parameters = function.Find("parameters");
    if (parameters != nullptr && !parameters->IsNull() && !parameters->IsObject()) {
      Fail(path + ".parameters", "an object", parameters);
    }
  }

  std::string_view source_;
  MessageOptions options_;
  std::size_t n_calls_ = 0;
  std::optional<Error> error_;
};

// True if the client forbids tools: only the string "none" does.
bool ForbidsTools(const JsonValue* tool_choice) {
  return tool_choice != nullptr && tool_choice->IsString() && tool_choice->text() == "none";
}

// {"type": "text"} asks for no particular form.
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
  return request;
}

Result<std::vector<ToolSpec>> ParseTools(std::string_view json, std::string_view path) {
  const Result<JsonValue> root = ParseClientJson(json, path);
  if (!root) return Unexpected(root.error());
  MessageReader reader(json, {});
  std::vector<ToolSpec> tools = reader.ReadTools(&*root, std::string(path));
  if (reader.error()) return Unexpected(*reader.error());
  return tools;
}

}  // namespace fathom
