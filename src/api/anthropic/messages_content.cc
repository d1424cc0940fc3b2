#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "api/anthropic/messages_blocks.h"
#include "api/anthropic/messages_request.h"
#include "api/common/other_endpoint.h"
#include "chat/literals.h"

namespace fathom::api {
namespace {

// The last block that summarizes everything before it.
struct Compaction {
  std::size_t message = 0;
  std::size_t block = 0;
  std::string summary{};  // empty: there is none
};

Compaction FindCompaction(const JsonValue& messages) {
  for (std::size_t m = messages.items().size(); m-- > 0;) {
    const JsonValue& message = messages.items()[m];
    const JsonValue* content = message.Find("content");
    if (message.FindText("role") != "assistant" || content == nullptr || !content->IsArray()) {
      continue;
    }
    for (std::size_t b = content->items().size(); b-- > 0;) {
      std::string summary = CompactionText(content->items()[b]);
      if (!summary.empty()) return {.message = m, .block = b, .summary = std::move(summary)};
    }
  }
  return {};
}

class ConversationReader {
 public:
  ConversationReader(FieldReader& reader, std::string_view body, const ConversationRules& rules,
                     OfferedTools& tools)
      : reader_(reader),
        blocks_(reader, body, rules.media, tools),
        stable_system_(rules.stable_system) {}

  std::vector<Message> Read() {
    const JsonValue* system = reader_.Find("system");
    if (system != nullptr) AddSystem(ReadTexts(*system, BlockPlace::kSystemField, "system"));
    const JsonValue* messages = reader_.Find("messages");
    constexpr std::string_view kExpected = "a list of at least one message";
    if (messages == nullptr || (messages->IsArray() && messages->items().empty())) {
      reader_.Fail("messages", kExpected, messages == nullptr ? "nothing" : "an empty list");
    }
    if (messages != nullptr) compaction_ = FindCompaction(*messages);
    std::size_t index = 0;
    reader_.ReadList("messages", kExpected, [&](const JsonValue& message, const std::string& path) {
      AddMessage(message, index++, path);
    });
    if (!reader_.error() && blocks_.media_error()) reader_.Fail(*blocks_.media_error());
    // The model continues a last message of its own, unless this message ends with calls.
    if (!messages_.empty() && messages_.back().role == Role::kAssistant) {
      messages_.back().leave_open = messages_.back().tool_calls.empty();
    }
    return std::move(messages_);
  }

 private:
  static std::string Found(const JsonValue* value) {
    if (value == nullptr) return "nothing";
    return value->IsArray() && value->items().empty() ? "an empty list" : DescribeFound(*value);
  }

  std::vector<std::string> ReadTexts(const JsonValue& content, BlockPlace place,
                                     const std::string& path) {
    return blocks_.Read(content, place, path).texts;
  }

  void AddMessage(const JsonValue& value, std::size_t index, const std::string& path) {
    const JsonValue* role = value.Find("role");
    const JsonValue* content = value.Find("content");
    const JsonValue* calls = value.Find("tool_calls");
    const std::string_view name = value.FindText("role");
    const bool is_summarized = !compaction_.summary.empty() && index < compaction_.message;
    if (is_summarized && !(name == "system" && IsHead())) {
      is_after_head_ = true;
      return;
    }
    blocks_.Count(path);
    if (!value.IsObject()) {
      reader_.Fail(path, "an object", value);
    } else if (name == "tool" || name == "function") {
      reader_.Fail(OtherEndpointError(path + ".role", fmt::format("a message of the role {}", name),
                                      "/v1/chat/completions", "tool_result blocks"));
    } else if (calls != nullptr && calls->Truthy()) {
      reader_.Fail(OtherEndpointError(path + ".tool_calls", "this field", "/v1/chat/completions",
                                      "tool_use blocks"));
    } else if (content == nullptr || content->IsNull()) {
      reader_.Fail(path + ".content", "a string or a list of blocks", content);
    } else if (name == "user") {
      AddUser(blocks_.Read(*content, BlockPlace::kUser, path + ".content"));
    } else if (name == "assistant") {
      AddAssistant(*content, index, path + ".content");
    } else if (name == "system") {
      AddSystem(ReadTexts(*content, BlockPlace::kSystem, path + ".content"));
    } else {
      reader_.Fail(path + ".role", "user, assistant or system", Found(role));
    }
  }

  // A summary is not an answer: it becomes a turn of the user before the rest of its message.
  void AddAssistant(const JsonValue& content, std::size_t index, const std::string& path) {
    const bool is_summary = !compaction_.summary.empty() && index == compaction_.message;
    const std::size_t first = is_summary ? compaction_.block + 1 : 0;
    if (is_summary) {
      messages_.push_back({.role = Role::kUser, .content = compaction_.summary});
      if (first == content.items().size()) return;
    }
    Blocks blocks = blocks_.Read(content, BlockPlace::kAssistant, path, first);
    messages_.push_back({.role = Role::kAssistant,
                         .content = JoinTexts(blocks.texts),
                         .reasoning_content = std::move(blocks.reasoning),
                         .tool_calls = std::move(blocks.calls)});
  }

  void AddUser(Blocks blocks) {
    const bool has_text = !blocks.texts.empty() || blocks.results.empty();
    std::move(blocks.results.begin(), blocks.results.end(), std::back_inserter(messages_));
    if (has_text) messages_.push_back({.role = Role::kUser, .content = JoinTexts(blocks.texts)});
  }

  // Returns whether there are only system texts so far.
  bool IsHead() const {
    return !is_after_head_ && (messages_.empty() || messages_.back().role == Role::kSystem) &&
           messages_.size() <= 1;
  }

  // Before any other message, all system texts form one system prompt. Between other messages, a
  // system text is a turn of its own: Claude Code sends such a text once and never changes it,
  // except for its counters of tokens.
  void AddSystem(std::vector<std::string> texts) {
    if (stable_system_) {
      for (std::string& text : texts) text = StableSystemText(text);
    }
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    if (texts.empty()) return;
    if (IsHead() && !messages_.empty()) {
      messages_[0].content.append(kBlockJoiner).append(JoinTexts(texts));
    } else {
      messages_.push_back({.role = Role::kSystem, .content = JoinTexts(texts)});
    }
  }

  FieldReader& reader_;
  ContentBlockReader blocks_;
  const bool stable_system_;
  Compaction compaction_;
  bool is_after_head_ = false;  // messages after the system texts were dropped
  std::vector<Message> messages_;
};

}  // namespace

std::vector<Message> ReadConversation(FieldReader& reader, std::string_view body,
                                      const ConversationRules& rules, OfferedTools* tools) {
  return ConversationReader(reader, body, rules, *tools).Read();
}

}  // namespace fathom::api
