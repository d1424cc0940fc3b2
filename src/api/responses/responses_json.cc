#include "api/responses/responses_json.h"

#include <fmt/format.h>

#include <utility>

#include "api/common/answer_format.h"
#include "api/common/reasoning_token.h"
#include "chat/custom_tool.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

const CollectedAnswer& Collected(const ApiAnswer& answer) {
  return answer.choices().front().collected();
}

// The form of the item for a call of a tool.
struct CallItemForm {
  std::string_view type;
  std::string_view id_prefix;
  std::string_view field;  // field with the text that the model wrote
};

constexpr CallItemForm kCallItemForms[] = {
    // by ToolKind
    {"function_call", "fc_", "arguments"},     {"custom_tool_call", "ctc_", "input"},
    {"local_shell_call", "lsh_", "action"},    {"shell_call", "sh_", "action"},
    {"apply_patch_call", "apc_", "operation"}, {"tool_search_call", "tsc_", "arguments"},
};

const CallItemForm& FindForm(ToolKind kind) {
  return kCallItemForms[static_cast<std::size_t>(kind)];
}

// Makes a list of a single command, which a model may write instead of a list.
void MakeList(std::string_view key, std::initializer_list<std::string_view> before,
              JsonValue* object) {
  const JsonValue* value = object->Find(key);
  if (value != nullptr && value->IsArray()) return;
  JsonValue list = JsonValue::Array();
  if (value != nullptr && value->IsString()) {
    for (const std::string_view word : before) list.push_back(word);
    list.push_back(*value);
  }
  (*object)[key] = std::move(list);
}

// Returns the arguments as the "action" or "operation" of a call, with the fields that clients
// require.
JsonValue ActionJson(ToolKind kind, std::string_view arguments) {
  JsonValue action = JsonValue::Object();
  if (kind == ToolKind::kLocalShell) {
    action = {{"type", "exec"}, {"command", JsonValue::Array()}, {"env", JsonValue::Object()}};
  } else if (kind == ToolKind::kShell) {
    action = {
        {"commands", JsonValue::Array()}, {"timeout_ms", nullptr}, {"max_output_length", nullptr}};
  } else if (kind == ToolKind::kApplyPatch) {
    // An operation that changes nothing: the call has just begun, or was cut before it had more.
    action = {{"type", "update_file"}, {"path", ""}};
  }
  // Leaves depth for the response around it, so that this can be parsed again, too.
  const int max_depth = ParseJsonOptions().max_depth - 10;
  Result<JsonValue> written =
      ParseJson(arguments, {.max_depth = max_depth, .python_constants = false});
  if (written && written->IsObject()) action.Update(*std::move(written));
  if (kind == ToolKind::kLocalShell) MakeList("command", {"bash", "-lc"}, &action);
  if (kind == ToolKind::kShell) MakeList("commands", {}, &action);
  const bool has_diff = kind != ToolKind::kApplyPatch || action.Find("diff") != nullptr ||
                        action.FindText("type") == "delete_file";
  if (!has_diff) action["diff"] = "";
  return action;
}

// Returns the id of a response without its prefix.
std::string_view UniquePart(std::string_view id) { return id.substr(id.find('_') + 1); }

const ToolCall& FindCall(const ApiAnswer& answer, const OutputItem& item) {
  return Collected(answer).answer.tool_calls[item.call];
}

// Returns the client's name of the tool of a call.
ClientTool FindClientTool(const ApiAnswer& answer, const ToolCall& call) {
  const ClientTools& tools = ResponsesContextIn(answer)->client_tools;
  const auto found = tools.find(call.name);
  return found == tools.end() ? ClientTool{.name = call.name} : found->second;
}

// `arguments`: as the model wrote them; empty: none yet. `finished`: the same as an object.
JsonValue CallItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status,
                   std::string_view arguments, std::string_view finished) {
  const ToolCall& call = FindCall(answer, item);
  const ClientTool tool = FindClientTool(answer, call);
  const CallItemForm& form = FindForm(tool.kind);
  JsonValue json = {
      {"id", ItemId(answer, item)}, {"type", form.type}, {"status", status}, {"call_id", call.id}};
  if (tool.kind == ToolKind::kFunction) {
    json.Update({{"name", tool.name}, {form.field, arguments}});
  } else if (tool.kind == ToolKind::kCustom) {
    json.Update({{"name", tool.name}, {form.field, CustomInput(arguments)}});
  } else {
    json[form.field] = ActionJson(tool.kind, finished);
    if (tool.kind == ToolKind::kToolSearch) json["execution"] = "client";
  }
  if (!tool.space.empty()) json["namespace"] = tool.space;
  return json;
}

JsonValue MessageItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status,
                      JsonValue content) {
  return {{"id", ItemId(answer, item)},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

JsonValue ReasoningItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status,
                        std::string_view text) {
  const bool summarizes = ResponsesContextIn(answer)->summarizes;
  const JsonValue part = {{"type", summarizes ? "summary_text" : "reasoning_text"}, {"text", text}};
  const JsonValue none = JsonValue::Array();
  const JsonValue parts = text.empty() ? none : JsonValue::Array({part});
  JsonValue json = {{"id", ItemId(answer, item)},
                    {"type", "reasoning"},
                    {"status", status},
                    {"summary", summarizes ? parts : none}};
  if (!summarizes) json["content"] = parts;
  if (ResponsesContextIn(answer)->includes_encrypted_reasoning && !text.empty()) {
    json["encrypted_content"] = MakeReasoningToken(text);
  }
  return json;
}

JsonValue ResponsesUsage(const Usage& usage) {
  // Clients require cache_write_tokens. Writes cost nothing here and are not counted.
  return {
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// Sampling fields have the values in use: --like-hosted replaces the client's values.
JsonValue ResponsesJson(const ApiAnswer& answer, std::string_view status, JsonValue output) {
  const SamplingParameters& sampling = answer.call().requests.front().sampling;
  JsonValue json = {{"id", answer.head().id},
                    {"object", "response"},
                    {"created_at", answer.head().created},
                    {"status", status},
                    {"background", false},
                    {"error", nullptr},
                    {"incomplete_details", nullptr},
                    {"model", answer.head().model},
                    {"output", std::move(output)},
                    {"temperature", sampling.temperature},
                    {"top_logprobs", sampling.top_logprobs.value_or(0)},
                    {"top_p", sampling.top_p},
                    {"usage", nullptr}};
  json.Update(ResponsesContextIn(answer)->echo);
  return json;
}

// Returns one of OpenAI's codes for a response; Codex retries after a server_error.
std::string_view FailureCode(const ApiError& error) {
  if (error.overflow) return error.code;
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status >= 500 ? "server_error" : "invalid_prompt";
}

}  // namespace

const ResponsesContext* ResponsesContextIn(const ApiAnswer& answer) {
  return std::any_cast<ResponsesContext>(&answer.call().context);
}

std::vector<OutputItem> OutputItems(const ApiAnswer& answer) {
  const Answer& said = Collected(answer).answer;
  std::vector<OutputItem> items;
  const auto add = [&items](OutputItem::Kind kind, std::size_t call) {
    items.push_back({.kind = kind, .index = items.size(), .call = call});
  };
  if (!said.reasoning_content.empty()) add(OutputItem::Kind::kReasoning, 0);
  if (!said.content.empty()) add(OutputItem::Kind::kMessage, 0);
  for (std::size_t i = 0; i < said.tool_calls.size(); ++i) add(OutputItem::Kind::kCall, i);
  return items;
}

ToolKind KindOfCall(const ApiAnswer& answer, std::size_t call) {
  return FindClientTool(answer, Collected(answer).answer.tool_calls[call]).kind;
}

std::string ItemId(const ApiAnswer& answer, const OutputItem& item) {
  std::string_view prefix = item.kind == OutputItem::Kind::kReasoning ? "rs_" : "msg_";
  if (item.kind == OutputItem::Kind::kCall) {
    prefix = FindForm(KindOfCall(answer, item.call)).id_prefix;
  }
  return fmt::format("{}{}{}", prefix, UniquePart(answer.head().id), item.index);
}

JsonValue TextPart(std::string_view text, JsonValue logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", JsonValue::Array()},
          {"logprobs", std::move(logprobs)}};
}

JsonValue TextLogprobs(const ApiAnswer& answer, ChatLogprobs* told) {
  const JsonValue logprobs = told->Next(Collected(answer), answer.sections(0).sections(), false,
                                        {.tokenizer = *answer.model().tokenizer});
  return logprobs.IsNull() ? JsonValue::Array() : *logprobs.Find("content");
}

JsonValue ItemJson(const ApiAnswer& answer, const OutputItem& item, std::string_view status) {
  const Answer& said = Collected(answer).answer;
  const bool is_empty = status == "in_progress";
  switch (item.kind) {
    case OutputItem::Kind::kReasoning:
      return ReasoningItem(answer, item, status,
                           is_empty ? std::string_view() : said.reasoning_content);
    case OutputItem::Kind::kMessage: {
      JsonValue content = JsonValue::Array();
      ChatLogprobs none_told;
      if (!is_empty) content.push_back(TextPart(said.content, TextLogprobs(answer, &none_told)));
      return MessageItem(answer, item, status, std::move(content));
    }
    case OutputItem::Kind::kCall:
      break;
  }
  if (is_empty) return CallItem(answer, item, status, "", "");
  return CallItem(answer, item, status, FindCall(answer, item).arguments,
                  FinishedArguments(said, item.call));
}

std::string_view FinishedStatus(const ApiAnswer& answer, const OutputItem& item) {
  const bool is_last = item.index + 1 == OutputItems(answer).size();
  return is_last && !IsComplete(answer) ? "incomplete" : "completed";
}

bool IsComplete(const ApiAnswer& answer) {
  const CollectedAnswer& collected = Collected(answer);
  return collected.finish && !collected.error &&
         collected.answer.finish_reason != ChatFinishReason::kLength;
}

JsonValue StartedResponse(const ApiAnswer& answer) {
  return ResponsesJson(answer, "in_progress", JsonValue::Array());
}

JsonValue FinishedResponse(const ApiAnswer& answer) {
  JsonValue output = JsonValue::Array();
  for (const OutputItem& item : OutputItems(answer)) {
    output.push_back(ItemJson(answer, item, FinishedStatus(answer, item)));
  }
  const bool is_complete = IsComplete(answer);
  JsonValue json =
      ResponsesJson(answer, is_complete ? "completed" : "incomplete", std::move(output));
  if (!is_complete) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = ResponsesUsage(answer.usage());
  return json;
}

JsonValue FailedResponse(const ApiAnswer& answer, const ApiError& error) {
  JsonValue json = FinishedResponse(answer);
  json["status"] = "failed";
  json["error"] = {{"code", FailureCode(error)}, {"message", error.message}};
  json["incomplete_details"] = nullptr;
  json["usage"] = nullptr;
  return json;
}

JsonValue InputItemJson(const ResponseItem& item) {
  JsonValue json = {{"id", item.id}, {"type", "message"}};
  json.Update(ParseJson(item.json).value_or(JsonValue::Object()));
  json["id"] = item.id;
  const JsonValue* content = json.Find("content");
  if (json.FindText("type") == "message" && content != nullptr && content->IsString()) {
    const bool is_output = json.FindText("role") == "assistant";
    const JsonValue part = {{"type", is_output ? "output_text" : "input_text"}, {"text", *content}};
    json["content"] = JsonValue::Array({part});
  }
  if (json.Find("status") == nullptr) json["status"] = "completed";
  return json;
}

void StoreResponse(const ApiAnswer& answer, ResponseStore& store) {
  const ResponsesContext* context = ResponsesContextIn(answer);
  if (context == nullptr || !context->store) return;
  if (!answer.choices().front().finished() || answer.error()) return;
  const JsonValue json = FinishedResponse(answer);
  StoredResponse stored = {.id = answer.head().id,
                           .json = WriteJson(json),
                           .items = context->input,
                           .n_input = context->input.size()};
  for (std::size_t i = 0; i < stored.n_input; ++i) {
    std::string& id = stored.items[i].id;
    if (id.empty()) id = fmt::format("item_{}{}", UniquePart(stored.id), i);
  }
  for (const JsonValue& item : json.Find("output")->items()) {
    stored.items.push_back({.id = std::string(item.FindText("id")), .json = WriteJson(item)});
  }
  store.Put(std::move(stored));
}

}  // namespace fathom::api
