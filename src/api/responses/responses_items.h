// The items of a conversation of the Responses API -> messages.
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

// Reads one item after another; keeps the first error, which names the field as the client knows
// it: input[2].content[0].type. One thread; `store` may be null and must outlive it.
//
// The items of one answer (reasoning, text, calls) become one message again, as the model wrote it;
// neighbouring system messages become one. Custom tools and the local shell are functions for the
// model. Items of tools that only OpenAI runs are left out.
class ResponsesItems {
 public:
  explicit ResponsesItems(ResponseStore* store) : store_(store) {}

  // `source` is the text the item was read from, `path` its name in errors.
  void Add(const JsonValue& item, std::string_view source, const std::string& path);
  // Items as Items() gave them.
  void AddStored(const std::vector<ResponseItem>& items, const std::string& path);
  void AddUserText(std::string_view text);

  // The model answers a user's turn: where none is open, as in a request without any item, an empty
  // one is opened.
  std::vector<Message> TakeMessages();
  // All of them, references replaced by what they refer to.
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
