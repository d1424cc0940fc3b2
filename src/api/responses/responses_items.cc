#include "api/responses/responses_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/common/reasoning_token.h"
#include "api/responses/responses_tools.h"
#include "chat/custom_tool.h"
#include "chat/literals.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

constexpr std::string_view kTextTypes[] = {"input_text", "output_text", "text", "summary_text",
                                           "reasoning_text"};

// Treatment of a part that is not text.
enum class OtherParts {
  kRefuse,  // the model would answer without seeing it
  kName,    // a tool returned it, and the client cannot change it
};

void AppendParagraph(std::string_view text, std::string* to) {
  if (!to->empty() && !text.empty()) to->append(kBlockJoiner);
  to->append(text);
}

std::string PartText(FieldReader& reader, const JsonValue& part, const std::string& path,
                     OtherParts others) {
  if (!part.IsObject()) {
    reader.Fail(path, "an object", part);
    return "";
  }
  const JsonValue* type = part.Find("type");
  const std::string_view name = part.FindText("type");
  const bool is_refusal = name == "refusal";
  if (is_refusal ||
      std::find(std::begin(kTextTypes), std::end(kTextTypes), name) != std::end(kTextTypes)) {
    const std::string key = is_refusal ? "refusal" : "text";
    const JsonValue* text = part.Find(key);
    if (text != nullptr && text->IsString()) return std::string(text->text());
    reader.Fail(fmt::format("{}.{}", path, key), "a string", text);
  } else if (others == OtherParts::kRefuse) {
    reader.Fail(path + ".type", "input_text or output_text (this model reads text only)", type);
  }
  return fmt::format("[Unsupported {}]", name);
}

// Reads a string or a list of parts.
std::string ReadText(FieldReader& reader, std::string_view key, OtherParts others) {
  const JsonValue* value = reader.Find(key);
  if (value == nullptr) return "";
  if (value->IsString()) return std::string(value->text());
  std::vector<std::string> texts;
  reader.ReadList(key, "a string or a list of parts",
                  [&](const JsonValue& part, const std::string& path) {
                    texts.push_back(PartText(reader, part, path, others));
                  });
  return fmt::format("{}", fmt::join(texts, kBlockJoiner));
}

// Reads reasoning in the fullest form that the client kept.
std::string ReadReasoningText(FieldReader& reader) {
  std::optional<std::string> reasoning = ReadReasoningToken(reader.Text("encrypted_content"));
  if (reasoning) return *std::move(reasoning);
  std::string text = ReadText(reader, "content", OtherParts::kRefuse);
  std::string summary = ReadText(reader, "summary", OtherParts::kRefuse);
  return text.empty() ? summary : text;
}

// Clients leave out the types of messages and their parts.
std::string ItemType(FieldReader& reader) {
  if (reader.Find("type") != nullptr) return reader.Text("type");
  if (reader.Find("role") != nullptr) return "message";
  return reader.Find("id") != nullptr ? "item_reference" : "";
}

// Reads one item after another. Keeps the first error, which names the field as the client knows
// it: input[2].content[0].type. Used by one thread; `store` may be null and must outlive the
// object.
//
// The items of one answer (reasoning, text, calls) become one message again, as the model wrote it;
// neighbouring system messages become one. Custom tools, the shells and the patch tool are
// functions to the model. Items of tools that only OpenAI runs are dropped.
class ResponsesItems {
 public:
  explicit ResponsesItems(ResponseStore* store) : store_(store) {}

  // `source` is the text that the item was read from, `path` its name in errors.
  void Add(const JsonValue& item, std::string_view source, const std::string& path) {
    static constexpr Kind kKinds[] = {
        {"message", &ResponsesItems::ReadMessage},
        {"reasoning", &ResponsesItems::ReadReasoning},
        {"function_call", &ResponsesItems::ReadFunctionCall},
        {"function_call_output", &ResponsesItems::ReadOutput},
        {"custom_tool_call", &ResponsesItems::ReadCustomCall},
        {"custom_tool_call_output", &ResponsesItems::ReadOutput},
        {"local_shell_call", &ResponsesItems::ReadLocalShellCall},
        {"local_shell_call_output", &ResponsesItems::ReadOutput},
        {"shell_call", &ResponsesItems::ReadShellCall},
        {"shell_call_output", &ResponsesItems::ReadShellOutput},
        {"apply_patch_call", &ResponsesItems::ReadPatchCall},
        {"apply_patch_call_output", &ResponsesItems::ReadPatchOutput},
        {"compaction", &ResponsesItems::ReadCompaction},
        {"compaction_summary", &ResponsesItems::ReadCompaction},
        {"code_interpreter_call", &ResponsesItems::ReadNothing},
        {"computer_call", &ResponsesItems::ReadNothing},
        {"computer_call_output", &ResponsesItems::ReadNothing},
        {"file_search_call", &ResponsesItems::ReadNothing},
        {"ghost_snapshot", &ResponsesItems::ReadNothing},
        {"image_generation_call", &ResponsesItems::ReadNothing},
        {"mcp_approval_request", &ResponsesItems::ReadNothing},
        {"mcp_approval_response", &ResponsesItems::ReadNothing},
        {"mcp_call", &ResponsesItems::ReadNothing},
        {"mcp_list_tools", &ResponsesItems::ReadNothing},
        {"tool_search_call", &ResponsesItems::ReadNothing},
        {"tool_search_output", &ResponsesItems::ReadNothing},
        {"web_search_call", &ResponsesItems::ReadNothing},
    };
    if (error_) return;
    if (items_.size() >= kMaxMessages) {
      error_ = Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: expected at most {} items, found more", path, kMaxMessages)};
      return;
    }
    if (!item.IsObject()) {
      error_ = Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: expected an object, found {}", path, DescribeFound(item))};
      return;
    }
    FieldReader reader(item, path);
    const std::string type = ItemType(reader);
    std::string id = reader.Text("id");
    if (type == "item_reference") {
      const std::optional<ResponseItem> stored =
          store_ == nullptr ? std::nullopt : store_->FindItem(id);
      if (stored) return AddReferenced(*stored, path);
      reader.Fail("id", "the id of an item of a stored response", PythonJsonString(id));
    } else {
      const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                      [&](const Kind& entry) { return entry.type == type; });
      if (kind != std::end(kKinds)) {
        (this->*kind->read)(reader, source);
        items_.push_back({.id = std::move(id), .json = std::string(item.SourceIn(source))});
      } else {
        reader.Fail("type", "message, function_call, function_call_output or another kind of item",
                    type.empty() ? "nothing" : PythonJsonString(type));
      }
    }
    error_ = reader.error();
  }

  // Adds items that TakeItems returned.
  void AddStored(const std::vector<ResponseItem>& items, const std::string& path) {
    for (const ResponseItem& item : items) AddJson(item, path);
  }

  void AddUserText(std::string_view text) {
    messages_.push_back({.role = Role::kUser, .content = std::string(text)});
    items_.push_back({.json = fmt::format(R"({{"type": "message", "role": "user", "content": {}}})",
                                          PythonJsonString(text))});
  }

  // Returns the messages; an empty turn of the user if there are none.
  std::vector<Message> TakeMessages() {
    if (messages_.empty()) messages_.push_back({.role = Role::kUser});
    return std::move(messages_);
  }

  // Returns all items, with references replaced by the items.
  std::vector<ResponseItem> TakeItems() { return std::move(items_); }

  const std::optional<Error>& error() const { return error_; }

 private:
  struct Kind {
    std::string_view type;
    void (ResponsesItems::*read)(FieldReader&, std::string_view);
  };

  // A reference of a few bytes may stand for megabytes, and the store is searched for each.
  void AddReferenced(const ResponseItem& item, const std::string& path) {
    constexpr std::size_t kMaxReferences = 1024;
    constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
    referenced_bytes_ += item.json.size();
    if (++n_references_ <= kMaxReferences && referenced_bytes_ <= kMaxBytes) {
      return AddJson(item, path);
    }
    error_ = Error{ErrorCode::kTooLarge,
                   fmt::format("{}: expected at most {} references to items of together {} bytes, "
                               "found more",
                               path, kMaxReferences, kMaxBytes)};
  }

  void AddJson(const ResponseItem& item, const std::string& path) {
    if (error_) return;
    const Result<JsonValue> json = ParseJson(item.json);
    if (!json) {
      error_ = json.error();
      return;
    }
    Add(*json, item.json, path);
    if (!items_.empty() && items_.back().id.empty()) items_.back().id = item.id;
  }

  void ReadMessage(FieldReader& reader, std::string_view) {
    const std::string role = reader.Text("role");
    std::string text = ReadText(reader, "content", OtherParts::kRefuse);
    if (role == "assistant") {
      AppendParagraph(text, &AssistantTurn().content);
    } else if (role == "system" || role == "developer") {
      const bool goes_on = !messages_.empty() && messages_.back().role == Role::kSystem;
      if (!goes_on) messages_.push_back({.role = Role::kSystem});
      AppendParagraph(text, &messages_.back().content);
    } else if (role == "user") {
      messages_.push_back({.role = Role::kUser, .content = std::move(text)});
    } else {
      reader.Fail("role", "one of user, assistant, system, developer",
                  role.empty() ? "nothing" : PythonJsonString(role));
    }
  }

  void ReadReasoning(FieldReader& reader, std::string_view) {
    // The model reasons before it speaks, so reasoning begins another of its turns.
    const Message& open = AssistantTurn();
    if (!open.content.empty() || !open.tool_calls.empty()) {
      messages_.push_back({.role = Role::kAssistant});
    }
    AppendParagraph(ReadReasoningText(reader), &messages_.back().reasoning_content);
  }

  void ReadFunctionCall(FieldReader& reader, std::string_view source) {
    const std::string space = reader.Text("namespace");
    ToolCall call = {.id = reader.RequireText("call_id"),
                     .name = FlatToolName(space, reader.RequireText("name"))};
    const JsonValue* arguments = reader.Find("arguments");
    if (arguments != nullptr) {
      call.arguments = arguments->IsString() ? arguments->text() : arguments->SourceIn(source);
    }
    if (call.arguments.empty()) call.arguments = "{}";
    AddCall(std::move(call));
  }

  void ReadCustomCall(FieldReader& reader, std::string_view) {
    const std::string space = reader.Text("namespace");
    const std::string input = reader.Text("input");
    AddCall({.id = reader.RequireText("call_id"),
             .name = FlatToolName(space, reader.RequireText("name")),
             .arguments = CustomArguments(input)});
  }

  void ReadLocalShellCall(FieldReader& reader, std::string_view source) {
    const std::string_view id_key = reader.Find("call_id") == nullptr ? "id" : "call_id";
    AddObjectCall(reader, source, "local_shell", "action", id_key);
    // Some clients name the item in the output, others the call.
    const std::string id = reader.Text("id");
    if (!id.empty()) call_ids_.emplace(id, reader.Text(id_key));
  }

  void ReadShellCall(FieldReader& reader, std::string_view source) {
    AddObjectCall(reader, source, "shell", "action", "call_id");
  }

  void ReadPatchCall(FieldReader& reader, std::string_view source) {
    AddObjectCall(reader, source, "apply_patch", "operation", "call_id");
  }

  void ReadOutput(FieldReader& reader, std::string_view) {
    const JsonValue* output = reader.Find("output");
    const bool is_text = output == nullptr || output->IsString() || output->IsArray();
    AddResult(reader,
              is_text ? ReadText(reader, "output", OtherParts::kName) : PythonJson(*output));
  }

  // The output is a list of {"stdout", "stderr", "outcome"}, one for each command.
  void ReadShellOutput(FieldReader& reader, std::string_view) {
    const JsonValue* output = reader.Find("output");
    const bool is_text = output == nullptr || output->IsString();
    AddResult(reader, is_text ? reader.Text("output") : PythonJson(*output));
  }

  // The status says whether the patch could be applied.
  void ReadPatchOutput(FieldReader& reader, std::string_view) {
    std::string text = reader.Text("status");
    AppendParagraph(ReadText(reader, "output", OtherParts::kName), &text);
    AddResult(reader, std::move(text));
  }

  // The compaction of another server cannot be read; a text can.
  void ReadCompaction(FieldReader& reader, std::string_view) {
    std::string text = ReadReasoningText(reader);
    if (!text.empty()) messages_.push_back({.role = Role::kUser, .content = std::move(text)});
  }

  void ReadNothing(FieldReader&, std::string_view) {}

  // Adds a call whose arguments are the object `key`. Clients write null where the model wrote
  // nothing.
  void AddObjectCall(FieldReader& reader, std::string_view source, std::string_view name,
                     std::string_view key, std::string_view id_key) {
    const JsonValue* object = reader.Find(key);
    if (object == nullptr || !object->IsObject()) return reader.Fail(key, "an object", object);
    std::string arguments(object->SourceIn(source));
    const auto is_null = [](const JsonValue& value) { return value.IsNull(); };
    if (std::any_of(object->items().begin(), object->items().end(), is_null)) {
      JsonValue given = JsonValue::Object();
      for (std::size_t i = 0; i < object->items().size(); ++i) {
        const JsonValue& value = object->items()[i];
        if (!value.IsNull()) given.Add(object->key(i), value);
      }
      arguments = PythonJson(given);
    }
    AddCall({.id = reader.RequireText(id_key), .name = std::string(name), .arguments = arguments});
  }

  void AddResult(FieldReader& reader, std::string text) {
    const std::string_view id_key = reader.Find("call_id") == nullptr ? "id" : "call_id";
    const std::string call_id = reader.Text(id_key);
    const auto call = call_ids_.find(call_id);
    if (call == call_ids_.end()) {
      return reader.Fail("call_id", "the call_id of a call before it",
                         call_id.empty() ? "nothing" : PythonJsonString(call_id));
    }
    messages_.push_back(
        {.role = Role::kTool, .content = std::move(text), .tool_call_id = call->second});
  }

  void AddCall(ToolCall call) {
    call_ids_.emplace(call.id, call.id);
    AssistantTurn().tool_calls.push_back(std::move(call));
  }

  Message& AssistantTurn() {
    if (messages_.empty() || messages_.back().role != Role::kAssistant) {
      messages_.push_back({.role = Role::kAssistant});
    }
    return messages_.back();
  }

  ResponseStore* const store_;
  std::vector<Message> messages_;
  std::vector<ResponseItem> items_;
  std::size_t n_references_ = 0;
  std::size_t referenced_bytes_ = 0;
  // The ids that outputs may name, and the calls they belong to.
  std::map<std::string, std::string, std::less<>> call_ids_;
  std::optional<Error> error_;
};

void ReadPrevious(FieldReader& reader, ResponseStore* store, ResponsesItems* items) {
  const std::string id = reader.Text("previous_response_id");
  if (id.empty()) return;
  const std::optional<std::vector<ResponseItem>> conversation =
      store == nullptr ? std::nullopt : store->FindConversation(id);
  if (conversation) return items->AddStored(*conversation, "previous_response_id");
  reader.Fail("previous_response_id",
              "the id of a stored response (only the latest are kept, and none with store: false)",
              PythonJsonString(id));
}

}  // namespace

void ReadResponsesInput(FieldReader& reader, std::string_view body, ResponseStore* store,
                        ResponsesRequest* request) {
  ResponsesItems items(store);
  ReadPrevious(reader, store, &items);
  const JsonValue* input = reader.Find("input");
  if (input != nullptr && input->IsString()) {
    items.AddUserText(input->text());
  } else if (input != nullptr && input->IsArray()) {
    for (std::size_t i = 0; i < input->items().size() && !items.error(); ++i) {
      items.Add(input->items()[i], body, fmt::format("input[{}]", i));
    }
  } else if (input != nullptr || reader.Find("previous_response_id") == nullptr) {
    reader.Fail("input", "a string or a list of items", input);
  }
  if (items.error()) reader.Fail(*items.error());
  request->chat.chat.messages = items.TakeMessages();
  if (request->context.store && store != nullptr) request->context.input = items.TakeItems();
}

}  // namespace fathom
