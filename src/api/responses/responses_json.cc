#include "api/responses/responses_json.h"

#include <fmt/format.h>

#include <utility>

#include "api/common/answer_format.h"
#include "api/common/reasoning_token.h"
#include "api/responses/responses_tools.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

const CollectedAnswer& Collected(const ApiAnswer& answer) {
  return answer.choices().front().collected();
}

constexpr std::string_view kIdPrefixes[] = {"rs_", "msg_", "fc_", "ctc_"};  // by OutputItem::Kind

const ToolCall& CallOf(const ApiAnswer& answer, const OutputItem& item) {
  return Collected(answer).answer.tool_calls[item.call];
}

// Returns the client's name of the tool of a call.
ClientTool ClientToolOf(const ApiAnswer& answer, const ToolCall& call) {
  const ClientTools& tools = ContextOf(answer)->client_tools;
  const auto found = tools.find(call.name);
  return found == tools.end() ? ClientTool{.name = call.name} : found->second;
}

JsonValue CallItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status,
                   std::string text) {
  const ToolCall& call = CallOf(answer, item);
  const ClientTool tool = ClientToolOf(answer, call);
  JsonValue json = {
      {"id", ItemId(answer, item)}, {"type", tool.is_custom ? "custom_tool_call" : "function_call"},
      {"status", status},           {"call_id", call.id},
      {"name", tool.name},          {tool.is_custom ? "input" : "arguments", std::move(text)}};
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
  const bool summarizes = ContextOf(answer)->summarizes;
  const JsonValue part = {{"type", summarizes ? "summary_text" : "reasoning_text"}, {"text", text}};
  const JsonValue none = JsonValue::Array();
  const JsonValue parts = text.empty() ? none : JsonValue::Array({part});
  JsonValue json = {{"id", ItemId(answer, item)},
                    {"type", "reasoning"},
                    {"status", status},
                    {"summary", summarizes ? parts : none}};
  if (!summarizes) json["content"] = parts;
  if (ContextOf(answer)->includes_encrypted_reasoning && !text.empty()) {
    json["encrypted_content"] = MakeReasoningToken(text);
  }
  return json;
}

JsonValue ResponsesUsage(const Usage& usage) {
  // Clients require cache_write_tokens; writes cost nothing here and are not counted.
  return {
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

JsonValue ResponsesJson(const ApiAnswer& answer, std::string_view status, JsonValue output) {
  JsonValue json = {{"id", answer.head().id},
                    {"object", "response"},
                    {"created_at", answer.head().created},
                    {"status", status},
                    {"background", false},
                    {"error", nullptr},
                    {"incomplete_details", nullptr},
                    {"model", answer.head().model},
                    {"output", std::move(output)},
                    {"usage", nullptr}};
  json.Update(ContextOf(answer)->echo);
  return json;
}

// Returns one of OpenAI's codes for a response; Codex retries after a server_error.
std::string_view FailureCode(const ApiError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status >= 500 ? "server_error" : "invalid_prompt";
}

}  // namespace

const ResponsesContext* ContextOf(const ApiAnswer& answer) {
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
  for (std::size_t i = 0; i < said.tool_calls.size(); ++i) add(KindOfCall(answer, i), i);
  return items;
}

OutputItem::Kind KindOfCall(const ApiAnswer& answer, std::size_t call) {
  const ToolCall& made = Collected(answer).answer.tool_calls[call];
  return ClientToolOf(answer, made).is_custom ? OutputItem::Kind::kCustomCall
                                              : OutputItem::Kind::kFunctionCall;
}

std::string ItemId(const ApiAnswer& answer, const OutputItem& item) {
  const std::string_view id = answer.head().id;
  const std::string_view unique = id.substr(id.find('_') + 1);
  return fmt::format("{}{}{}", kIdPrefixes[static_cast<std::size_t>(item.kind)], unique,
                     item.index);
}

JsonValue TextPart(std::string_view text, JsonValue logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", JsonValue::Array()},
          {"logprobs", std::move(logprobs)}};
}

JsonValue TextLogprobs(const ApiAnswer& answer) {
  ChatLogprobs none_told;
  return TextLogprobs(answer, &none_told);
}

JsonValue TextLogprobs(const ApiAnswer& answer, ChatLogprobs* told) {
  const JsonValue logprobs = told->Next(Collected(answer), answer.sections(0).sections(), false,
                                        *answer.model().tokenizer);
  return logprobs.IsNull() ? JsonValue::Array() : *logprobs.Find("content");
}

JsonValue StartedItem(const ApiAnswer& answer, const OutputItem& item) {
  switch (item.kind) {
    case OutputItem::Kind::kReasoning:
      return ReasoningItem(answer, item, "in_progress", "");
    case OutputItem::Kind::kMessage:
      return MessageItem(answer, item, "in_progress", JsonValue::Array());
    case OutputItem::Kind::kFunctionCall:
    case OutputItem::Kind::kCustomCall:
      break;
  }
  return CallItem(answer, item, "in_progress", "");
}

JsonValue FinishedItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status) {
  const Answer& said = Collected(answer).answer;
  switch (item.kind) {
    case OutputItem::Kind::kReasoning:
      return ReasoningItem(answer, item, status, said.reasoning_content);
    case OutputItem::Kind::kMessage:
      return MessageItem(answer, item, status,
                         JsonValue::Array({TextPart(said.content, TextLogprobs(answer))}));
    case OutputItem::Kind::kFunctionCall:
      return CallItem(answer, item, status, CallOf(answer, item).arguments);
    case OutputItem::Kind::kCustomCall:
      break;
  }
  return CallItem(answer, item, status, CustomInput(CallOf(answer, item).arguments));
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
    output.push_back(FinishedItem(answer, item, FinishedStatus(answer, item)));
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

void StoreResponse(const ApiAnswer& answer, ResponseStore& store) {
  const ResponsesContext* context = ContextOf(answer);
  if (context == nullptr || !context->store) return;
  if (!answer.choices().front().finished() || answer.error()) return;
  const JsonValue json = FinishedResponse(answer);
  StoredResponse stored = {
      .id = answer.head().id, .json = WriteJson(json), .items = context->input};
  for (const JsonValue& item : json.Find("output")->items()) {
    stored.items.push_back({.id = std::string(item.TextOf("id")), .json = WriteJson(item)});
  }
  store.Put(std::move(stored));
}

}  // namespace fathom
