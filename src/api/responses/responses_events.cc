#include "api/responses/responses_events.h"

#include <utility>

#include "api/common/answer_format.h"
#include "api/responses/responses_json.h"

namespace fathom::api {
namespace {

// The names of the events of a text, and of their fields.
struct TextEvents {
  std::string_view part_added;
  std::string_view delta;
  std::string_view done;
  std::string_view part_done;
  std::string_view part_type;
  std::string_view index;
};

constexpr TextEvents kReasoning = {"response.content_part.added",
                                   "response.reasoning_text.delta",
                                   "response.reasoning_text.done",
                                   "response.content_part.done",
                                   "reasoning_text",
                                   "content_index"};
constexpr TextEvents kSummary = {"response.reasoning_summary_part.added",
                                 "response.reasoning_summary_text.delta",
                                 "response.reasoning_summary_text.done",
                                 "response.reasoning_summary_part.done",
                                 "summary_text",
                                 "summary_index"};
constexpr TextEvents kMessage = {"response.content_part.added",
                                 "response.output_text.delta",
                                 "response.output_text.done",
                                 "response.content_part.done",
                                 "output_text",
                                 "content_index"};

// Returns nullptr for an item that is a call.
const TextEvents* FindTextEvents(std::string_view type, bool is_summary) {
  if (type == "message") return &kMessage;
  if (type != "reasoning") return nullptr;
  return is_summary ? &kSummary : &kReasoning;
}

JsonValue ReasoningPart(const TextEvents& names, std::string_view text) {
  return {{"type", names.part_type}, {"text", text}};
}

// Returns the text of the one part in a list of parts, or "".
std::string_view TextIn(const JsonValue* parts) {
  return parts == nullptr || parts->items().empty() ? "" : parts->items().front().FindText("text");
}

// A summary replaces the content; both never occur together.
std::string_view ReasoningIn(const JsonValue& item) {
  return TextIn(item.Find(item.Find("content") == nullptr ? "summary" : "content"));
}

// Returns the text whose pieces are the deltas of an item.
std::string_view TextOfItem(const JsonValue& item) {
  const std::string_view type = item.FindText("type");
  if (type == "reasoning") return ReasoningIn(item);
  if (type == "message") return TextIn(item.Find("content"));
  return type == "custom_tool_call" ? item.FindText("input") : item.FindText("arguments");
}

// Returns the item in its state at the beginning.
JsonValue WithoutText(JsonValue item) {
  item["status"] = "in_progress";
  for (const std::string_view list : {"summary", "content"}) {
    if (item.Find(list) != nullptr) item[list] = JsonValue::Array();
  }
  for (const std::string_view text : {"arguments", "input"}) {
    const JsonValue* value = item.Find(text);
    if (value == nullptr) continue;
    item[text] = value->IsObject() ? JsonValue::Object() : JsonValue("");
  }
  return item;
}

}  // namespace

void ResponseEvents::Emit(std::string_view type, JsonValue fields, std::string* out) {
  JsonValue json = {{"type", type}, {"sequence_number", number_}};
  json.Update(std::move(fields));
  if (number_++ >= first_number_) AppendSse(type, json, out);
}

void ResponseEvents::EmitOfItem(std::string_view type, JsonValue fields, std::string* out) {
  JsonValue json = {{"item_id", id_}, {"output_index", n_opened_ - 1}};
  json.Update(std::move(fields));
  Emit(type, std::move(json), out);
}

void ResponseEvents::Open(JsonValue item, std::string* out) {
  id_ = item.FindText("id");
  type_ = item.FindText("type");
  is_summary_ = item.Find("content") == nullptr;
  Emit("response.output_item.added", {{"output_index", n_opened_++}, {"item", std::move(item)}},
       out);
  if (const TextEvents* names = FindTextEvents(type_, is_summary_)) {
    JsonValue part =
        names == &kMessage ? TextPart("", JsonValue::Array()) : ReasoningPart(*names, "");
    EmitOfItem(names->part_added, {{names->index, 0}, {"part", std::move(part)}}, out);
  }
}

void ResponseEvents::Add(std::string_view text, std::string* out, JsonValue logprobs) {
  if (const TextEvents* names = FindTextEvents(type_, is_summary_)) {
    JsonValue fields = {{names->index, 0}, {"delta", text}};
    if (names == &kMessage) fields["logprobs"] = std::move(logprobs);
    EmitOfItem(names->delta, std::move(fields), out);
  } else if (type_ == "function_call") {
    EmitOfItem("response.function_call_arguments.delta", {{"delta", text}}, out);
  } else if (type_ == "custom_tool_call") {
    EmitOfItem("response.custom_tool_call_input.delta", {{"delta", text}}, out);
  }
}

void ResponseEvents::Close(const JsonValue& item, std::string* out) {
  if (const TextEvents* names = FindTextEvents(type_, is_summary_)) {
    const JsonValue part = names == &kMessage ? item.Find("content")->items()[0]
                                              : ReasoningPart(*names, ReasoningIn(item));
    JsonValue fields = {{names->index, 0}, {"text", *part.Find("text")}};
    if (names == &kMessage) fields["logprobs"] = *part.Find("logprobs");
    EmitOfItem(names->done, std::move(fields), out);
    EmitOfItem(names->part_done, {{names->index, 0}, {"part", part}}, out);
  } else if (type_ == "function_call") {
    EmitOfItem("response.function_call_arguments.done",
               {{"name", *item.Find("name")}, {"arguments", *item.Find("arguments")}}, out);
  } else if (type_ == "custom_tool_call") {
    EmitOfItem("response.custom_tool_call_input.done", {{"input", *item.Find("input")}}, out);
  }
  Emit("response.output_item.done", {{"output_index", n_opened_ - 1}, {"item", item}}, out);
}

std::string ReplayEvents(const JsonValue& response, std::int64_t first_number) {
  std::string out;
  ResponseEvents events(first_number);
  JsonValue started = response;
  started["status"] = "in_progress";
  started["incomplete_details"] = nullptr;
  started["output"] = JsonValue::Array();
  started["usage"] = nullptr;
  events.Emit("response.created", {{"response", started}}, &out);
  events.Emit("response.in_progress", {{"response", started}}, &out);
  for (const JsonValue& item : response.Find("output")->items()) {
    events.Open(WithoutText(item), &out);
    const std::string_view text = TextOfItem(item);
    if (!text.empty()) events.Add(text, &out);
    const bool is_cut_call =
        item.FindText("status") == "incomplete" && item.FindText("type").ends_with("_call");
    if (!is_cut_call) events.Close(item, &out);  // clients run every call that is done
  }
  const bool is_complete = response.FindText("status") == "completed";
  events.Emit(is_complete ? "response.completed" : "response.incomplete", {{"response", response}},
              &out);
  return out;
}

}  // namespace fathom::api
