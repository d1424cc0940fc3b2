#include "cli/terminal/chat_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "chat/messages.h"
#include "cli/terminal/output.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::cli {
namespace {

std::string ChatJson(const SavedChat& chat) {
  JsonValue messages = JsonValue::Array();
  for (const Message& message : chat.messages) {
    JsonValue entry = {{"role", kRoleNames[static_cast<std::size_t>(message.role)]},
                       {"content", message.content}};
    if (!message.reasoning_content.empty()) {
      entry["reasoning_content"] = message.reasoning_content;
    }
    messages.push_back(std::move(entry));
  }
  JsonValue object = JsonValue::Object();
  if (chat.think) object["think"] = kThinkNames[static_cast<std::size_t>(*chat.think)];
  object["messages"] = std::move(messages);
  return WriteJson(object, 2) + "\n";
}

Result<std::optional<Think>> ReadThink(std::string_view json) {
  const Result<JsonValue> object = ParseJson(json);
  if (!object || !object->IsObject()) {
    return MakeError(ErrorCode::kInvalidData, "expected a JSON object, found {}",
                     object ? object->Describe()
                            : fmt::format("text that is not JSON ({})", object.error().message));
  }
  const JsonValue* found = object->Find("think");
  if (found == nullptr) return std::optional<Think>();
  const auto* name = std::find(std::begin(kThinkNames), std::end(kThinkNames), found->text());
  if (name == std::end(kThinkNames)) {
    return MakeError(ErrorCode::kInvalidData, "think: expected off, high or max, found {}",
                     WriteJson(*found).substr(0, 80));
  }
  return std::optional(static_cast<Think>(name - std::begin(kThinkNames)));
}

Status CheckMessages(const std::vector<Message>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool known = message.role == Role::kUser || message.role == Role::kAssistant ||
                       (message.role == Role::kSystem && i == 0);
    if (!known) {
      return MakeError(
          ErrorCode::kInvalidData, "messages[{}].role: expected user or assistant{}, found {}", i,
          i == 0 ? " or system" : "", kRoleNames[static_cast<std::size_t>(message.role)]);
    }
    if (!message.tool_calls.empty() || !message.tools.empty() || message.task ||
        message.response_format) {
      return MakeError(ErrorCode::kInvalidData,
                       "messages[{}]: expected text only, found tools, a task or a response format",
                       i);
    }
  }
  return {};
}

}  // namespace

Status SaveChat(const std::filesystem::path& path, const SavedChat& chat) {
  return WriteFile(path, ChatJson(chat));
}

Result<SavedChat> ParseChat(std::string_view json) {
  const Result<std::optional<Think>> think = ReadThink(json);
  if (!think) return Unexpected(think.error());
  Result<ChatRequest> request = ParseChatRequest(json);
  if (!request) return Unexpected(request.error());
  if (!request->tools.empty() || !request->context.empty() || request->response_format) {
    return MakeError(ErrorCode::kInvalidData,
                     "expected messages only, found tools, context or response_format");
  }
  const Status checked = CheckMessages(request->messages);
  if (!checked) return Unexpected(checked.error());
  return SavedChat{.think = *think, .messages = std::move(request->messages)};
}

Result<SavedChat> LoadChat(const std::filesystem::path& path) {
  const Result<std::string> json = ReadInput(path.string());
  if (!json) return Unexpected(json.error());
  Result<SavedChat> chat = ParseChat(*json);
  if (!chat) return MakeError(chat.error().code, "{}: {}", path.string(), chat.error().message);
  return chat;
}

}  // namespace fathom::cli
