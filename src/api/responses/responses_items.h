// Converts the items of a conversation of the Responses API to messages.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/responses/response_store.h"
#include "base/result.h"
#include "chat/chat.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom {

// Reads one item after another. Keeps the first error, which names the field as the client knows
// it: input[2].content[0].type. Used by one thread; `store` may be null and must outlive the
// object.
//
// The items of one answer (reasoning, text, calls) become one message again, as the model wrote it;
// neighbouring system messages become one. Custom tools and the local shell are functions to the
// model. Items of tools that only OpenAI runs are dropped.
class ResponsesItems {
 public:
  explicit ResponsesItems(ResponseStore* store) : store_(store) {}

  // `source` is the text that the item was read from, `path` its name in errors.
  void Add(const JsonValue& item, std::string_view source, const std::string& path);
  // Adds items that TakeItems returned.
  void AddStored(const std::vector<ResponseItem>& items, const std::string& path);
  void AddUserText(std::string_view text);

  // Returns the messages. The model answers a user's turn: if none is open, as in a request without
  // items, an empty one is added.
  std::vector<Message> TakeMessages();
  // Returns all items, with references replaced by the items.
  std::vector<ResponseItem> TakeItems() { return std::move(items_); }

  const std::optional<Error>& error() const { return error_; }

 private:
  struct Kind;

  void AddJson(const ResponseItem& item, const std::string& path);
  void ReadMessage(FieldReader& reader, std::string_view source);
  void ReadReasoning(FieldReader& reader, std::string_view source);
  void ReadFunctionCall(FieldReader& reader, std::string_view source);
  void ReadCustomCall(FieldReader& reader, std::string_view source);
  void ReadShellCall(FieldReader& reader, std::string_view source);
  void ReadOutput(FieldReader& reader, std::string_view source);
  void ReadCompaction(FieldReader& reader, std::string_view source);
  void ReadNothing(FieldReader& reader, std::string_view source);
  void AddCall(ToolCall call);
  Message& AssistantTurn();

  ResponseStore* const store_;
  std::vector<Message> messages_;
  std::vector<ResponseItem> items_;
  std::set<std::string, std::less<>> call_ids_;
  std::optional<Error> error_;
};

}  // namespace fathom
