#include "api/anthropic/messages_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "api/common/reasoning_token.h"
#include "chat/literals.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";
constexpr std::string_view kTokensOpen = "<total_tokens>";
constexpr std::string_view kTokensClose = " tokens left</total_tokens>";

std::string WithoutBillingHeader(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    std::size_t line = std::min(text.find('\n'), text.size());
    if (text.starts_with(kBillingHeader)) {
      line = std::min(text.find_first_not_of('\n', line), text.size());
    } else {
      line = std::min(line + 1, text.size());
      kept.append(text.substr(0, line));
    }
    text.remove_prefix(line);
  }
  return kept;
}

// Returns the length in bytes of the marker that `text` begins with, or 0.
std::size_t TokensMarker(std::string_view text) {
  const std::size_t end =
      std::min(text.find_first_not_of("0123456789,", kTokensOpen.size()), text.size());
  const bool is_marker = end > kTokensOpen.size() && text.substr(end).starts_with(kTokensClose);
  return is_marker ? end + kTokensClose.size() : 0;
}

std::string WithoutTokensMarkers(std::string_view text) {
  std::string kept;
  while (true) {
    const std::size_t open = text.find(kTokensOpen);
    kept.append(text.substr(0, open));
    if (open == std::string_view::npos) return kept;
    text.remove_prefix(open);
    const std::size_t marker = TokensMarker(text);
    if (marker > 0) {
      kept.erase(kept.find_last_not_of('\n') + 1);
      text.remove_prefix(marker);
    } else {
      kept.append(kTokensOpen);
      text.remove_prefix(kTokensOpen.size());
    }
  }
}

// The blocks of one message by kind.
struct Blocks {
  std::vector<std::string> texts;
  std::string reasoning;
  std::vector<ToolCall> calls;
  std::vector<Message> results;
};

std::string Join(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, kBlockJoiner));
}

// Calls of tools that Anthropic runs, and their results: server_tool_use, mcp_tool_use,
// web_search_tool_result, ... Only Anthropic's own models can read them.
bool IsDropped(std::string_view type) {
  return type == "redacted_thinking" || type == "server_tool_use" || type == "mcp_tool_use" ||
         type.ends_with("_tool_result");
}

std::string_view ExpectedTypes(Role role) {
  switch (role) {
    case Role::kUser:
      return "text, document, search_result or tool_result (this model reads text only)";
    case Role::kAssistant:
      return "text, thinking or tool_use";
    default:
      return "text";
  }
}

class ConversationReader {
 public:
  ConversationReader(FieldReader& reader, std::string_view body, bool stable_system)
      : reader_(reader), body_(body), stable_system_(stable_system) {}

  std::vector<Message> Read() {
    const JsonValue* system = reader_.Find("system");
    if (system != nullptr) AddSystem(ReadContent(*system, Role::kSystem, "system").texts);
    const JsonValue* messages = reader_.Find("messages");
    constexpr std::string_view kExpected = "a list of at least one message";
    if (messages == nullptr || (messages->IsArray() && messages->items().empty())) {
      reader_.Fail("messages", kExpected, messages == nullptr ? "nothing" : "an empty list");
    }
    reader_.ReadList("messages", kExpected, [&](const JsonValue& message, const std::string& path) {
      AddMessage(message, path);
    });
    // The model continues a last message of its own, unless this ended with calls.
    if (!messages_.empty() && messages_.back().role == Role::kAssistant) {
      messages_.back().wo_eos = messages_.back().tool_calls.empty();
    }
    return std::move(messages_);
  }

 private:
  static std::string Found(const JsonValue* value) {
    if (value == nullptr) return "nothing";
    return value->IsArray() && value->items().empty() ? "an empty list" : DescribeFound(*value);
  }

  // Returns a string, or "" if the key is absent or null.
  std::string ReadText(const JsonValue& object, std::string_view key, const std::string& path) {
    FieldReader fields(object, path);
    std::string text = fields.Text(key);
    if (fields.error()) reader_.Fail(*fields.error());
    return text;
  }

  // Returns "" after an error.
  std::string RequireText(const JsonValue& object, std::string_view key, const std::string& path) {
    const JsonValue* text = object.Find(key);
    if (text != nullptr && text->IsString()) return std::string(text->text());
    reader_.Fail(fmt::format("{}.{}", path, key), "a string", text);
    return "";
  }

  // Returns "" after an error.
  std::string ReadType(const JsonValue& block, const std::string& path) {
    if (!block.IsObject()) {
      reader_.Fail(path, "an object with a type", block);
      return "";
    }
    std::string type = ReadText(block, "type", path);
    if (type.empty()) reader_.Fail(path + ".type", "the type of a block", block.Find("type"));
    return type;
  }

  void AddMessage(const JsonValue& value, const std::string& path) {
    Count(path);
    const JsonValue* role = value.Find("role");
    const JsonValue* content = value.Find("content");
    const std::string_view name = value.FindText("role");
    if (!value.IsObject()) {
      reader_.Fail(path, "an object", value);
    } else if (content == nullptr || content->IsNull()) {
      reader_.Fail(path + ".content", "a string or a list of blocks", content);
    } else if (name == "user") {
      AddUser(ReadContent(*content, Role::kUser, path + ".content"));
    } else if (name == "assistant") {
      Blocks blocks = ReadContent(*content, Role::kAssistant, path + ".content");
      messages_.push_back({.role = Role::kAssistant,
                           .content = Join(blocks.texts),
                           .reasoning_content = std::move(blocks.reasoning),
                           .tool_calls = std::move(blocks.calls)});
    } else if (name == "system") {
      AddSystem(ReadContent(*content, Role::kSystem, path + ".content").texts);
    } else {
      reader_.Fail(path + ".role", "user, assistant or system", Found(role));
    }
  }

  // Counts a message, a call or a result.
  void Count(const std::string& path) {
    if (++n_counted_ <= kMaxMessages) return;
    reader_.Fail(path, fmt::format("at most {} messages, calls and results", kMaxMessages), "more");
  }

  void AddUser(Blocks blocks) {
    const bool has_text = !blocks.texts.empty() || blocks.results.empty();
    std::move(blocks.results.begin(), blocks.results.end(), std::back_inserter(messages_));
    if (has_text) messages_.push_back({.role = Role::kUser, .content = Join(blocks.texts)});
  }

  // Before any other message all system texts form one system prompt. Between other messages a
  // system text is a turn of its own, which Claude Code sends once and never changes.
  void AddSystem(std::vector<std::string> texts) {
    const bool is_head = messages_.empty() || messages_.back().role == Role::kSystem;
    if (is_head && messages_.size() <= 1) {
      if (stable_system_) {
        for (std::string& text : texts) text = StableSystemText(text);
      }
      std::erase_if(texts, [](const std::string& text) { return text.empty(); });
      if (texts.empty()) return;
      if (messages_.empty()) {
        messages_.push_back({.role = Role::kSystem, .content = Join(texts)});
      } else {
        messages_[0].content.append(kBlockJoiner).append(Join(texts));
      }
      return;
    }
    messages_.push_back({.role = Role::kSystem, .content = Join(texts)});
  }

  Blocks ReadContent(const JsonValue& content, Role role, const std::string& path) {
    Blocks blocks;
    if (content.IsString()) {
      blocks.texts.emplace_back(content.text());
      return blocks;
    }
    reader_.ReadItems(content, path, "a string or a list of blocks",
                      [&](const JsonValue& block, const std::string& place) {
                        ReadBlock(block, role, place, &blocks);
                      });
    return blocks;
  }

  void ReadBlock(const JsonValue& block, Role role, const std::string& path, Blocks* blocks) {
    const std::string type = ReadType(block, path);
    if (reader_.error() || IsDropped(type)) return;
    if (type == "text") {
      blocks->texts.push_back(RequireText(block, "text", path));
    } else if (type == "document" && role == Role::kUser) {
      blocks->texts.push_back(ReadDocument(block, path));
    } else if (type == "search_result" && role == Role::kUser) {
      blocks->texts.push_back(ReadSearchResult(block, path));
    } else if (type == "tool_result" && role == Role::kUser) {
      blocks->results.push_back({.role = Role::kTool,
                                 .content = ReadToolResult(block, path),
                                 .tool_call_id = ReadText(block, "tool_use_id", path)});
      Count(path);
    } else if (type == "thinking" && role == Role::kAssistant) {
      std::string thinking = ReadText(block, "thinking", path);
      const std::string signature = ReadText(block, "signature", path);
      if (thinking.empty()) {  // the client did not want to see it (MessageBlocks)
        thinking = ReadReasoningToken(signature).value_or("");
      }
      blocks->reasoning += thinking;
    } else if (type == "tool_use" && role == Role::kAssistant) {
      blocks->calls.push_back(ReadToolUse(block, path));
      Count(path);
    } else {
      reader_.Fail(path + ".type", ExpectedTypes(role), PythonJsonString(type));
    }
  }

  ToolCall ReadToolUse(const JsonValue& block, const std::string& path) {
    ToolCall call = {.id = ReadText(block, "id", path), .name = ReadText(block, "name", path)};
    if (call.name.empty()) {
      reader_.Fail(path + ".name", "a string that is not empty", block.Find("name"));
    }
    const JsonValue* input = block.Find("input");
    if (input == nullptr || input->IsNull()) return call;
    if (!input->IsObject()) reader_.Fail(path + ".input", "an object", *input);
    call.arguments = input->SourceIn(body_);
    return call;
  }

  // The text must say whether the tool failed (is_error), because the format has no field for it.
  std::string ReadToolResult(const JsonValue& block, const std::string& path) {
    const JsonValue* content = block.Find("content");
    if (content == nullptr || content->IsNull()) return "";
    if (content->IsString()) return std::string(content->text());
    std::vector<std::string> texts;
    reader_.ReadItems(*content, path + ".content", "a string or a list of blocks",
                      [&](const JsonValue& part, const std::string& place) {
                        const std::string type = ReadType(part, place);
                        if (type == "text") {
                          texts.push_back(RequireText(part, "text", place));
                        } else if (type == "document" && IsTextDocument(part)) {
                          texts.push_back(ReadDocument(part, place));
                        } else if (type == "search_result") {
                          texts.push_back(ReadSearchResult(part, place));
                        } else {
                          texts.push_back(fmt::format("[Unsupported {}]", type));
                        }
                      });
    return Join(texts);
  }

  static bool IsTextDocument(const JsonValue& block) {
    const JsonValue* source = block.Find("source");
    const std::string_view type = source == nullptr ? "" : source->FindText("type");
    return type == "text" || type == "content";
  }

  // Returns the title, the client's context, and the text of a document.
  std::string ReadDocument(const JsonValue& block, const std::string& path) {
    const JsonValue* source = block.Find("source");
    if (!IsTextDocument(block)) {
      const JsonValue* type = source == nullptr ? nullptr : source->Find("type");
      reader_.Fail(path + ".source.type", "text or content (this model reads text only)",
                   Found(type));
      return "";
    }
    std::vector<std::string> texts = {ReadText(block, "title", path),
                                      ReadText(block, "context", path),
                                      ReadText(*source, "data", path + ".source")};
    const JsonValue* content = source->Find("content");
    if (content != nullptr && !content->IsNull()) {
      texts.push_back(Join(ReadContent(*content, Role::kSystem, path + ".source.content").texts));
    }
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    return Join(texts);
  }

  // Returns the title, the source and the text of what the client has found.
  std::string ReadSearchResult(const JsonValue& block, const std::string& path) {
    std::vector<std::string> texts = {ReadText(block, "title", path),
                                      ReadText(block, "source", path)};
    const JsonValue* content = block.Find("content");
    if (content != nullptr && !content->IsNull()) {
      texts.push_back(Join(ReadContent(*content, Role::kSystem, path + ".content").texts));
    }
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    return Join(texts);
  }

  FieldReader& reader_;
  const std::string_view body_;
  const bool stable_system_;
  std::vector<Message> messages_;
  std::size_t n_counted_ = 0;
};

}  // namespace

std::vector<Message> ReadConversation(FieldReader& reader, std::string_view body,
                                      bool stable_system) {
  return ConversationReader(reader, body, stable_system).Read();
}

std::string StableSystemText(std::string_view text) {
  return WithoutTokensMarkers(WithoutBillingHeader(text));
}

}  // namespace fathom
