// Reads the content blocks of Anthropic's messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat.h"
#include "chat/media_parts.h"
#include "chat/offered_tools.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::api {

// The blocks of one message by kind.
struct Blocks {
  std::vector<std::string> texts{};
  std::string reasoning{};
  std::vector<ToolCall> calls{};
  std::vector<Message> results{};
};

// Joins texts of one message as the format joins the parts of a turn.
std::string JoinTexts(const std::vector<std::string>& texts);

// Returns the summary in a compaction block; "" for another block, or if the compaction failed.
std::string CompactionText(const JsonValue& block);

// The place of content, which decides the blocks that it may have.
enum class BlockPlace { kSystemField, kSystem, kUser, kAssistant };

// One thread; the arguments of the constructor must outlive the object. `body` is the text that is
// read.
class ContentBlockReader {
 public:
  ContentBlockReader(FieldReader& reader, std::string_view body, MediaPolicy media,
                     OfferedTools& tools)
      : reader_(reader), body_(body), media_(media), tools_(tools) {}

  // Reads a string, or the blocks from `first` on. Call it once for each message, in their order.
  Blocks Read(const JsonValue& content, BlockPlace place, const std::string& path,
              std::size_t first = 0);

  // Returns the error of an image that must not be replaced; known after the last message.
  const std::optional<Error>& media_error() const { return media_.error(); }

  // Counts a message, a call or a result; too many fail.
  void Count(const std::string& path);

 private:
  void ReadBlock(const JsonValue& block, BlockPlace place, const std::string& path, Blocks* blocks);
  bool ReadUserBlock(const JsonValue& block, std::string_view type, const std::string& path,
                     Blocks* blocks);
  bool ReadAssistantBlock(const JsonValue& block, std::string_view type, const std::string& path,
                          Blocks* blocks);
  void ReadOther(std::string_view type, BlockPlace place, const std::string& path, Blocks* blocks);
  std::string ReadToolResult(const JsonValue& block, const std::string& path);
  std::string ReadDocument(const JsonValue& block, const std::string& path);
  std::string ReadSearchResult(const JsonValue& block, const std::string& path);
  std::string ReadToolChange(const JsonValue& block, std::string_view type,
                             const std::string& path);
  void AppendTexts(const JsonValue* content, const std::string& path,
                   std::vector<std::string>* texts);
  // Returns a string, or "" if the key is absent or null.
  std::string ReadText(const JsonValue& object, std::string_view key, const std::string& path);
  // Like ReadText, but the string must be present.
  std::string RequireText(const JsonValue& object, std::string_view key, const std::string& path);
  std::string ReadType(const JsonValue& block, const std::string& path);

  FieldReader& reader_;
  const std::string_view body_;
  MediaParts media_;
  OfferedTools& tools_;
  std::size_t n_counted_ = 0;
};

}  // namespace fathom::api
