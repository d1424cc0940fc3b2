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

#include "api/common/other_endpoint.h"
#include "api/common/reasoning_token.h"
#include "api/responses/responses_tools.h"
#include "base/utf8.h"
#include "chat/custom_tool.h"
#include "chat/literals.h"
#include "chat/messages.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

constexpr std::string_view kTextTypes[] = {"input_text", "output_text", "text", "summary_text",
                                           "reasoning_text"};

// Returns the text of a part; nothing if the part is not text.
std::optional<std::string> PartText(FieldReader& reader, const JsonValue& part,
                                    const std::string& path) {
  if (!part.IsObject()) {
    reader.Fail(path, "an object", part);
    return "";
  }
  const std::string_view type = part.FindText("type");
  const bool is_text =
      std::find(std::begin(kTextTypes), std::end(kTextTypes), type) != std::end(kTextTypes);
  if (!is_text && type != "refusal") return std::nullopt;
  const std::string key = is_text ? "text" : "refusal";
  const JsonValue* text = part.Find(key);
  if (text != nullptr && text->IsString()) return std::string(text->text());
  reader.Fail(fmt::format("{}.{}", path, key), "a string", text);
  return "";
}

// Reads a string or a list of parts. `other(part, path)` returns the text for a part that is not
// text.
template <class Other>
std::string ReadText(FieldReader& reader, std::string_view key, const Other& other) {
  const JsonValue* value = reader.Find(key);
  if (value == nullptr) return "";
  if (value->IsString()) return std::string(value->text());
  std::vector<std::string> texts;
  reader.ReadList(key, "a string or a list of parts",
                  [&](const JsonValue& part, const std::string& path) {
                    std::optional<std::string> text = PartText(reader, part, path);
                    texts.push_back(text ? *std::move(text) : other(part, path));
                  });
  return fmt::format("{}", fmt::join(texts, kBlockJoiner));
}

// Returns a text for a part that a tool returned or a model wrote.
std::string NamePart(const JsonValue& part, const std::string&) {
  return fmt::format("[Unsupported {}]", ShortenedUtf8(part.FindText("type"), kQuotedBytes));
}

// Servers that do not encrypt send the text itself as "encrypted_content"; the content of other
// servers cannot be read.
bool IsReadable(std::string_view text) {
  constexpr std::size_t kMostInAWord = 64;
  if (text.starts_with("gAAAA")) return false;  // OpenAI's encrypted content
  return text.size() <= kMostInAWord || text.find_first_of(" \n") != std::string_view::npos;
}

// Reads reasoning in the fullest form that the client kept.
std::string ReadReasoningText(FieldReader& reader) {
  std::optional<std::string> reasoning = ReadReasoningToken(reader.Text("encrypted_content"));
  if (reasoning) return *std::move(reasoning);
  std::string text = ReadText(reader, "content", NamePart);
  std::string summary = ReadText(reader, "summary", NamePart);
  return text.empty() ? summary : text;
}

// Clients leave out the types of messages and their parts.
std::string ItemType(FieldReader& reader) {
  if (reader.Find("type") != nullptr) return reader.Text("type");
  if (reader.Find("role") != nullptr) return "message";
  return reader.Find("id") != nullptr ? "item_reference" : "";
}

// Reads one item after another. Errors go to the reader of the body, and name the field by the
// client's path: input[2].content[0].type. Used by one thread; `store` may be null and must outlive
// the object.
//
// The items of one answer (reasoning, text, calls) become one message again, as the model wrote it;
// neighbouring system messages become one. A developer's message is text of the user's turn. Custom
// tools, the shells and the patch tool are functions for the model. Other items are dropped.
class ResponsesItems {
 public:
  ResponsesItems(FieldReader& body, ResponseStore* store, const ItemRules& rules,
                 OfferedTools& tools)
      : body_(body), store_(store), limits_(rules.limits), media_(rules.media), tools_(tools) {}

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
        {"agent_message", &ResponsesItems::ReadAgentMessage},
        {"additional_tools", &ResponsesItems::ReadAdditionalTools},
        {"tool_search_call", &ResponsesItems::ReadToolSearchCall},
        {"tool_search_output", &ResponsesItems::ReadToolSearchOutput},
        {"compaction", &ResponsesItems::ReadCompaction},
        {"context_compaction", &ResponsesItems::ReadCompaction},
        {"compaction_summary", &ResponsesItems::ReadCompaction},
    };
    if (body_.error()) return;
    if (items_.size() >= kMaxMessages) {
      return body_.Fail(path, fmt::format("at most {} items", kMaxMessages), "more");
    }
    if (!item.IsObject()) {
      return body_.Fail(
          {ErrorCode::kInvalidArgument,
           fmt::format("{}: expected an object, found {}", path, DescribeFound(item))});
    }
    path_ = path;
    FieldReader reader(item, path);
    const std::string type = ItemType(reader);
    std::string id = reader.Text("id");
    if (type == "item_reference") {
      const std::optional<ResponseItem> stored =
          store_ == nullptr ? std::nullopt : store_->FindItem(id);
      if (stored) return AddReferenced(*stored, path);
      reader.Fail("id", "the id of an item of a stored response", PythonJsonString(id));
    } else {
      const auto* kind = std::ranges::find(kKinds, type, &Kind::type);
      if (type.empty()) {
        reader.Fail("type", "message, function_call, function_call_output or another kind of item",
                    "nothing");
      }
      // Other items belong to tools that only OpenAI runs, or demand work that this server does not
      // do.
      if (kind != std::end(kKinds)) (this->*kind->read)(reader, source);
      items_.push_back({.id = std::move(id), .json = std::string(item.SourceIn(source))});
    }
    if (reader.error()) body_.Fail(*reader.error());
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

  std::vector<Message> TakeMessages() { return std::move(messages_); }

  // Returns all items, with references replaced by the items.
  std::vector<ResponseItem> TakeItems() { return std::move(items_); }

  // Returns the client's names of the tools that items have defined.
  ClientTools TakeClientTools() { return std::move(client_tools_); }

  // Returns the error of an image that must not be replaced; known after the last item.
  const std::optional<Error>& media_error() const { return media_.error(); }

 private:
  struct Kind {
    std::string_view type;
    void (ResponsesItems::*read)(FieldReader&, std::string_view);
  };

  // A reference of a few bytes may refer to megabytes, and each one needs a search of the store.
  void AddReferenced(const ResponseItem& item, const std::string& path) {
    constexpr std::size_t kMaxReferences = 1024;
    constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
    referenced_bytes_ += item.json.size();
    if (++n_references_ <= kMaxReferences && referenced_bytes_ <= kMaxBytes) {
      return AddJson(item, path);
    }
    body_.Fail({ErrorCode::kTooLarge,
                fmt::format("{}: expected at most {} references to items of together {} bytes, "
                            "found more",
                            path, kMaxReferences, kMaxBytes)});
  }

  void AddJson(const ResponseItem& item, const std::string& path) {
    if (body_.error()) return;
    const Result<JsonValue> json = ParseJson(item.json);
    if (!json) return body_.Fail(json.error());
    Add(*json, item.json, path);
    if (!items_.empty() && items_.back().id.empty()) items_.back().id = item.id;
  }

  void ReadMessage(FieldReader& reader, std::string_view) {
    const std::string role = reader.Text("role");
    media_.BeginMessage(role == "assistant");
    std::string text =
        ReadText(reader, "content", [this](const JsonValue& part, const std::string& path) {
          return media_.Replace(part.FindText("type"), path_ + "." + path);
        });
    if (role == "assistant") {
      AppendParagraph(text, &AssistantTurn().content);
    } else if (role == "system") {
      const bool goes_on = !messages_.empty() && messages_.back().role == Role::kSystem;
      if (!goes_on) messages_.push_back({.role = Role::kSystem});
      AppendParagraph(text, &messages_.back().content);
    } else if (role == "user" || role == "developer") {
      AddUserTurn(std::move(text));
    } else if (role == "tool" || role == "function") {
      reader.Fail(OtherEndpointError(path_ + ".role", fmt::format("an item of the role {}", role),
                                     "/v1/chat/completions", "function_call_output items"));
    } else {
      reader.Fail("role", "one of user, assistant, system, developer",
                  role.empty() ? "nothing" : PythonJsonString(role));
    }
  }

  // Reads one agent's task for another. Its encrypted part is plain text from servers that do not
  // encrypt.
  void ReadAgentMessage(FieldReader& reader, std::string_view) {
    AddUserTurn(ReadText(reader, "content", [](const JsonValue& part, const std::string& path) {
      const std::string_view text = part.FindText("encrypted_content");
      return text.empty() ? NamePart(part, path) : std::string(text);
    }));
  }

  void ReadAdditionalTools(FieldReader& reader, std::string_view source) {
    const std::string definitions = AddTools(reader, source);
    if (definitions.empty()) return;
    AddUserTurn("These tools can be called from now on:\n\n" + definitions);
  }

  // Reads a search. If the client executes it, it has a call_id; otherwise another server made it.
  void ReadToolSearchCall(FieldReader& reader, std::string_view source) {
    if (reader.Find("call_id") == nullptr) return;
    AddCall({.id = reader.Text("call_id"),
             .name = "tool_search",
             .arguments = ReadArguments(reader.Find("arguments"), source)});
  }

  void ReadToolSearchOutput(FieldReader& reader, std::string_view source) {
    if (reader.Find("call_id") == nullptr) return ReadAdditionalTools(reader, source);
    AddResult(reader, AddTools(reader, source));
  }

  // Adds the tools that an item defines, and returns their definitions as the prompt shows them.
  // Tools that cannot be read are omitted, because the item is part of a history.
  std::string AddTools(const FieldReader& reader, std::string_view source) {
    FieldReader scratch = reader;
    ResponsesTools found = ReadResponsesTools(scratch, source, limits_);
    if (scratch.error()) return "";
    client_tools_.merge(found.client_tools);
    std::string definitions;
    for (ToolSpec& tool : found.tools) AppendParagraph(tools_.Add(std::move(tool)), &definitions);
    return definitions;
  }

  void ReadReasoning(FieldReader& reader, std::string_view) {
    // The model reasons before it speaks, so reasoning after an answer begins another turn.
    const Message& open = AssistantTurn();
    if (!open.content.empty() || !open.tool_calls.empty()) {
      messages_.push_back({.role = Role::kAssistant});
    }
    AppendParagraph(ReadReasoningText(reader), &messages_.back().reasoning_content);
  }

  // Names and ids may be empty: a client cannot remove the rest of a broken answer from its
  // history.
  void ReadFunctionCall(FieldReader& reader, std::string_view source) {
    const std::string space = reader.Text("namespace");
    AddCall({.id = reader.Text("call_id"),
             .name = FlatToolName(space, reader.Text("name")),
             .arguments = ReadArguments(reader.Find("arguments"), source)});
  }

  void ReadCustomCall(FieldReader& reader, std::string_view) {
    const std::string space = reader.Text("namespace");
    const std::string input = reader.Text("input");
    AddCall({.id = reader.Text("call_id"),
             .name = FlatToolName(space, reader.Text("name")),
             .arguments = CustomArguments(input)});
  }

  void ReadLocalShellCall(FieldReader& reader, std::string_view source) {
    const std::string_view id_key = reader.Find("call_id") == nullptr ? "id" : "call_id";
    AddObjectCall(reader, source, "local_shell", "action", id_key);
    // Some clients name the item in the output, others name the call.
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
    AddResult(reader, is_text ? ReadText(reader, "output", NamePart) : PythonJson(*output));
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
    AppendParagraph(ReadText(reader, "output", NamePart), &text);
    AddResult(reader, std::move(text));
  }

  void ReadCompaction(FieldReader& reader, std::string_view) {
    std::string text = ReadReasoningText(reader);
    if (text.empty()) text = reader.Text("encrypted_content");
    if (!text.empty() && IsReadable(text)) AddUserTurn(std::move(text));
  }

  void AddUserTurn(std::string text) {
    media_.BeginMessage(/*is_assistant=*/false);
    messages_.push_back({.role = Role::kUser, .content = std::move(text)});
  }

  // Adds a call whose arguments are the object `key`. Clients write null for parameters that the
  // model did not write.
  void AddObjectCall(FieldReader& reader, std::string_view source, std::string_view name,
                     std::string_view key, std::string_view id_key) {
    const JsonValue* object = reader.Find(key);
    std::string arguments = ReadArguments(object, source);
    const auto is_null = [](const JsonValue& value) { return value.IsNull(); };
    if (object != nullptr && object->IsObject() &&
        std::any_of(object->items().begin(), object->items().end(), is_null)) {
      JsonValue given = JsonValue::Object();
      for (std::size_t i = 0; i < object->items().size(); ++i) {
        const JsonValue& value = object->items()[i];
        if (!value.IsNull()) given.Add(object->key(i), value);
      }
      arguments = PythonJson(given);
    }
    AddCall({.id = reader.Text(id_key), .name = std::string(name), .arguments = arguments});
  }

  // The call may be missing, for example because a client has cut its history.
  void AddResult(FieldReader& reader, std::string text) {
    const std::string_view id_key = reader.Find("call_id") == nullptr ? "id" : "call_id";
    std::string id = reader.Text(id_key);
    const auto call = call_ids_.find(id);
    if (call != call_ids_.end()) id = call->second;
    media_.BeginMessage(/*is_assistant=*/false);
    messages_.push_back(
        {.role = Role::kTool, .content = std::move(text), .tool_call_id = std::move(id)});
  }

  void AddCall(ToolCall call) {
    call_ids_.emplace(call.id, call.id);
    AssistantTurn().tool_calls.push_back(std::move(call));
  }

  Message& AssistantTurn() {
    media_.BeginMessage(/*is_assistant=*/true);
    if (messages_.empty() || messages_.back().role != Role::kAssistant) {
      messages_.push_back({.role = Role::kAssistant});
    }
    return messages_.back();
  }

  FieldReader& body_;
  ResponseStore* const store_;
  const RequestLimits limits_;
  MediaParts media_;
  OfferedTools& tools_;
  ClientTools client_tools_;
  std::string path_;  // path of the item that is read
  std::vector<Message> messages_;
  std::vector<ResponseItem> items_;
  std::size_t n_references_ = 0;
  std::size_t referenced_bytes_ = 0;
  // The ids that outputs may name, and the calls they belong to.
  std::map<std::string, std::string, std::less<>> call_ids_;
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
                        const ItemRules& rules, OfferedTools* tools, ResponsesRequest* request) {
  ResponsesItems items(reader, store, rules, *tools);
  ReadPrevious(reader, store, &items);
  const JsonValue* input = reader.Find("input");
  if (input != nullptr && input->IsString()) {
    items.AddUserText(input->text());
  } else if (input != nullptr && input->IsArray()) {
    for (std::size_t i = 0; i < input->items().size() && !reader.error(); ++i) {
      items.Add(input->items()[i], body, fmt::format("input[{}]", i));
    }
  } else if (input != nullptr || reader.Find("previous_response_id") == nullptr) {
    reader.Fail("input", "a string or a list of items", input);
  }
  if (items.media_error()) reader.Fail(*items.media_error());
  request->chat.chat.messages = items.TakeMessages();
  request->context.client_tools.merge(items.TakeClientTools());
  if (request->context.store && store != nullptr) request->context.input = items.TakeItems();
}

}  // namespace fathom::api
