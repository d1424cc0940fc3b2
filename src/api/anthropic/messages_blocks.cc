#include "api/anthropic/messages_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/anthropic/messages_tools.h"
#include "api/common/reasoning_token.h"
#include "base/utf8.h"
#include "chat/literals.h"
#include "chat/messages.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// The beginnings of the types of blocks that are not text, but that another model could read.
constexpr std::string_view kMediaTypes[] = {"image", "audio", "video", "file", "document"};

bool IsMedia(std::string_view type) {
  return std::any_of(std::begin(kMediaTypes), std::end(kMediaTypes),
                     [type](std::string_view begin) { return type.starts_with(begin); });
}

bool IsTextDocument(const JsonValue& block) {
  const JsonValue* source = block.Find("source");
  const std::string_view type = source == nullptr ? "" : source->FindText("type");
  return type == "text" || type == "content";
}

// Returns the name of the tool to which a block of a tool search or of a change refers.
std::string_view ReferredName(const JsonValue& reference) {
  const std::string_view name = reference.FindText("tool_name");
  return name.empty() ? reference.FindText("name") : name;
}

std::string Unsupported(std::string_view type) {
  return fmt::format("[Unsupported {}]", ShortenedUtf8(type, kQuotedBytes));
}

}  // namespace

std::string JoinTexts(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, kBlockJoiner));
}

std::string CompactionText(const JsonValue& block) {
  if (block.FindText("type") != "compaction") return "";
  const JsonValue* content = block.Find("content");
  if (content == nullptr || content->IsString()) return std::string(block.FindText("content"));
  std::vector<std::string> texts;
  for (const JsonValue& part : content->items()) texts.emplace_back(part.FindText("text"));
  return JoinTexts(texts);
}

Blocks ContentBlockReader::Read(const JsonValue& content, BlockPlace place, const std::string& path,
                                std::size_t first) {
  Blocks blocks;
  if (place != BlockPlace::kSystemField) media_.BeginMessage(place == BlockPlace::kAssistant);
  if (content.IsString()) {
    blocks.texts.emplace_back(content.text());
    return blocks;
  }
  if (!content.IsArray()) reader_.Fail(path, "a string or a list of blocks", content);
  for (std::size_t i = first; i < content.items().size() && !reader_.error(); ++i) {
    ReadBlock(content.items()[i], place, fmt::format("{}[{}]", path, i), &blocks);
  }
  return blocks;
}

void ContentBlockReader::Count(const std::string& path) {
  if (++n_counted_ <= kMaxMessages) return;
  reader_.Fail(path, fmt::format("at most {} messages, calls and results", kMaxMessages), "more");
}

void ContentBlockReader::ReadBlock(const JsonValue& block, BlockPlace place,
                                   const std::string& path, Blocks* blocks) {
  const std::string type = ReadType(block, path);
  if (reader_.error()) return;
  if (IsTextPart(type)) {
    blocks->texts.push_back(RequireText(block, "text", path));
  } else if (type == "tool_reference" && place != BlockPlace::kSystemField) {
    blocks->texts.push_back(tools_.Refer(ReferredName(block)));
  } else if (type == "compaction" && (place == BlockPlace::kUser || place == BlockPlace::kSystem)) {
    std::string summary = CompactionText(block);
    if (!summary.empty()) blocks->texts.push_back(std::move(summary));
  } else if (place == BlockPlace::kUser && ReadUserBlock(block, type, path, blocks)) {
    return;
  } else if (place == BlockPlace::kAssistant && ReadAssistantBlock(block, type, path, blocks)) {
    return;
  } else if (place == BlockPlace::kSystem && (type == "tool_addition" || type == "tool_removal")) {
    blocks->texts.push_back(ReadToolChange(block, type, path));
  } else {
    ReadOther(type, place, path, blocks);
  }
}

bool ContentBlockReader::ReadUserBlock(const JsonValue& block, std::string_view type,
                                       const std::string& path, Blocks* blocks) {
  if (type == "document" && IsTextDocument(block)) {
    blocks->texts.push_back(ReadDocument(block, path));
  } else if (type == "search_result") {
    blocks->texts.push_back(ReadSearchResult(block, path));
  } else if (type == "tool_result") {
    blocks->results.push_back({.role = Role::kTool,
                               .content = ReadToolResult(block, path),
                               .tool_call_id = ReadText(block, "tool_use_id", path)});
    Count(path);
  } else {
    return false;
  }
  return true;
}

bool ContentBlockReader::ReadAssistantBlock(const JsonValue& block, std::string_view type,
                                            const std::string& path, Blocks* blocks) {
  if (type == "thinking") {
    std::string thinking = ReadText(block, "thinking", path);
    const std::string signature = ReadText(block, "signature", path);
    if (thinking.empty()) {  // the client asked to hide it (MessageBlocks)
      thinking = ReadReasoningToken(signature).value_or("");
    }
    AppendParagraph(thinking, &blocks->reasoning);
  } else if (type == "tool_use") {
    blocks->calls.push_back({.id = ReadText(block, "id", path),
                             .name = ReadText(block, "name", path),
                             .arguments = ReadArguments(block.Find("input"), body_)});
    Count(path);
  } else {
    return false;
  }
  return true;
}

// Only Anthropic's own models can read most of these blocks: calls of tools that Anthropic runs and
// their results, hidden reasoning, marks of a fallback to another model. A text in place of a block
// in the assistant's message would be an example for the next answer.
void ContentBlockReader::ReadOther(std::string_view type, BlockPlace place, const std::string& path,
                                   Blocks* blocks) {
  if (place == BlockPlace::kAssistant || type.ends_with("_tool_result")) return;
  if (place == BlockPlace::kSystemField) {
    reader_.Fail(path + ".type", "text", PythonJsonString(type));
  } else if (IsMedia(type)) {
    blocks->texts.push_back(media_.Replace(type, path));
  } else {
    blocks->texts.push_back(Unsupported(type));
  }
}

// The text must say whether the tool failed (is_error), because the format has no field for it.
std::string ContentBlockReader::ReadToolResult(const JsonValue& block, const std::string& path) {
  const JsonValue* content = block.Find("content");
  if (content == nullptr || content->IsNull()) return "";
  if (content->IsString()) return std::string(content->text());
  std::vector<std::string> texts;
  reader_.ReadItems(*content, path + ".content", "a string or a list of blocks",
                    [&](const JsonValue& part, const std::string& place) {
                      const std::string type = ReadType(part, place);
                      if (IsTextPart(type)) {
                        texts.push_back(RequireText(part, "text", place));
                      } else if (type == "tool_reference") {
                        texts.push_back(tools_.Refer(ReferredName(part)));
                      } else if (type == "document" && IsTextDocument(part)) {
                        texts.push_back(ReadDocument(part, place));
                      } else if (type == "search_result") {
                        texts.push_back(ReadSearchResult(part, place));
                      } else {
                        texts.push_back(Unsupported(type));
                      }
                    });
  return JoinTexts(texts);
}

// Returns the title, the client's context, and the text of a document.
std::string ContentBlockReader::ReadDocument(const JsonValue& block, const std::string& path) {
  const JsonValue& source = *block.Find("source");
  std::vector<std::string> texts = {ReadText(block, "title", path),
                                    ReadText(block, "context", path),
                                    ReadText(source, "data", path + ".source")};
  AppendTexts(source.Find("content"), path + ".source.content", &texts);
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  return JoinTexts(texts);
}

// Returns the title, the source and the text of a result that the client has found.
std::string ContentBlockReader::ReadSearchResult(const JsonValue& block, const std::string& path) {
  std::vector<std::string> texts = {ReadText(block, "title", path),
                                    ReadText(block, "source", path)};
  AppendTexts(block.Find("content"), path + ".content", &texts);
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  return JoinTexts(texts);
}

void ContentBlockReader::AppendTexts(const JsonValue* content, const std::string& path,
                                     std::vector<std::string>* texts) {
  if (content == nullptr || content->IsNull()) return;
  if (content->IsString()) {
    texts->emplace_back(content->text());
    return;
  }
  reader_.ReadItems(
      *content, path, "a string or a list of blocks",
      [&](const JsonValue& part, const std::string& place) {
        const std::string type = ReadType(part, place);
        texts->push_back(IsTextPart(type) ? RequireText(part, "text", place) : Unsupported(type));
      });
}

// Returns the text that tells the model about a tool that the client removes or adds, in full or by
// its name.
std::string ContentBlockReader::ReadToolChange(const JsonValue& block, std::string_view type,
                                               const std::string& path) {
  const JsonValue* tool = block.Find("tool");
  const JsonValue* definition = tool == nullptr ? nullptr : tool->Find("definition");
  const std::string name(ReferredName(definition != nullptr ? *definition
                                      : tool == nullptr     ? block
                                                            : *tool));
  if (name.empty()) return Unsupported(type);
  if (type == "tool_removal") {
    tools_.Remove(name);
    return fmt::format("The tool {} cannot be called any more.", name);
  }
  const std::string shown =
      definition == nullptr
          ? tools_.Refer(name)
          : tools_.Add(MessagesFunction(*definition, body_, path + ".tool.definition"));
  if (shown == name) return fmt::format("The tool {} can be called from now on.", name);
  return fmt::format("This tool can be called from now on:\n{}", shown);
}

std::string ContentBlockReader::ReadText(const JsonValue& object, std::string_view key,
                                         const std::string& path) {
  FieldReader fields(object, path);
  std::string text = fields.Text(key);
  if (fields.error()) reader_.Fail(*fields.error());
  return text;
}

std::string ContentBlockReader::RequireText(const JsonValue& object, std::string_view key,
                                            const std::string& path) {
  const JsonValue* text = object.Find(key);
  if (text != nullptr && text->IsString()) return std::string(text->text());
  reader_.Fail(fmt::format("{}.{}", path, key), "a string", text);
  return "";
}

std::string ContentBlockReader::ReadType(const JsonValue& block, const std::string& path) {
  if (!block.IsObject()) {
    reader_.Fail(path, "an object with a type", block);
    return "";
  }
  std::string type = ReadText(block, "type", path);
  if (type.empty()) reader_.Fail(path + ".type", "the type of a block", block.Find("type"));
  return type;
}

}  // namespace fathom::api
