// The order of the events of one answer:
//
//   response.created, response.in_progress
//   output_item.added                      an item, empty
//     reasoning, message                   content_part.added, deltas, text.done, content_part.done
//     calls                                deltas, done
//   output_item.done                       the item with all it has: Codex reads only this one
//   ...                                    the next item
//   response.completed | response.incomplete | response.failed
//
// Items that are open when the answer fails are incomplete, too.
//
// Reasoning is told in one of the two ways the API has. The plain one is reasoning_text: it is what
// the model wrote, and summary says that somebody shortened it. Both openai-python and Codex read
// both, but Codex shows reasoning_text only if it is set to show raw reasoning, and other clients
// read nothing but summaries. So a client that asks for a summary gets the reasoning as one, in
// place of the text and never besides: clients show or send back whatever they get, and would have
// it twice.
#include "api/responses/responses_api.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/common/answer_format.h"
#include "api/openai/logprobs_json.h"
#include "api/responses/responses_json.h"
#include "api/responses/responses_tools.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// The names of the two kinds of reasoning events.
struct ReasoningEvents {
  std::string_view part_added;
  std::string_view delta;
  std::string_view done;
  std::string_view part_done;
  std::string_view part_type;
  std::string_view index;
};

constexpr ReasoningEvents kPlain = {"response.content_part.added",
                                    "response.reasoning_text.delta",
                                    "response.reasoning_text.done",
                                    "response.content_part.done",
                                    "reasoning_text",
                                    "content_index"};
constexpr ReasoningEvents kSummary = {"response.reasoning_summary_part.added",
                                      "response.reasoning_summary_text.delta",
                                      "response.reasoning_summary_text.done",
                                      "response.reasoning_summary_part.done",
                                      "summary_text",
                                      "summary_index"};

class ResponsesFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    return WriteJson(FinishedResponse(answer));
  }

  void Begin(const ApiAnswer& answer, std::string* out) override {
    const JsonValue response = {{"response", StartedResponse(answer)}};
    Emit("response.created", response, out);
    Emit("response.in_progress", response, out);
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    for (const AnswerEvent& event : piece.events) {
      switch (event.kind) {
        case AnswerEvent::Kind::kReasoningDelta:
          SendReasoning(answer, event, out);
          break;
        case AnswerEvent::Kind::kContentDelta:
          SendContent(answer, event, out);
          break;
        case AnswerEvent::Kind::kCallBegin:
        case AnswerEvent::Kind::kArgumentsDelta:
          SendCall(answer, event, out);
          break;
        case AnswerEvent::Kind::kCallEnd:  // what follows shows whether the call is complete
        case AnswerEvent::Kind::kFinish:
          break;
      }
    }
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    if (open_ && !IsCutCall(answer)) CloseItem(answer, FinishedStatus(answer, *open_), out);
    Emit(IsComplete(answer) ? "response.completed" : "response.incomplete",
         {{"response", FinishedResponse(answer)}}, out);
  }

  void Fail(const ApiAnswer& answer, const ApiError& error, std::string* out) override {
    Emit("response.failed", {{"response", FailedResponse(answer, error)}}, out);
  }

 private:
  void Emit(std::string_view type, JsonValue fields, std::string* out) {
    JsonValue json = {{"type", type}, {"sequence_number", sequence_number_++}};
    json.Update(std::move(fields));
    AppendSse(type, json, out);
  }

  // Emits an event about the open item, with `fields` behind its head.
  void EmitOfItem(const ApiAnswer& answer, std::string_view type, JsonValue fields,
                  std::string* out) {
    JsonValue json = {{"item_id", ItemId(answer, *open_)}, {"output_index", open_->index}};
    json.Update(std::move(fields));
    Emit(type, std::move(json), out);
  }

  // Opens the item that the event belongs to, unless it is open. Returns whether it opened one.
  bool OpenItem(const ApiAnswer& answer, OutputItem::Kind kind, std::size_t call,
                std::string* out) {
    if (open_ && open_->kind == kind && open_->call == call) return false;
    const std::size_t index = open_ ? open_->index + 1 : 0;
    if (open_) CloseItem(answer, "completed", out);
    open_ = OutputItem{.kind = kind, .index = index, .call = call};
    Emit("response.output_item.added",
         {{"output_index", index}, {"item", StartedItem(answer, *open_)}}, out);
    return true;
  }

  void SendReasoning(const ApiAnswer& answer, const AnswerEvent& event, std::string* out) {
    const ReasoningEvents& names = NamesOf(answer);
    if (OpenItem(answer, OutputItem::Kind::kReasoning, 0, out)) {
      EmitOfItem(answer, names.part_added, ReasoningPart(names, ""), out);
    }
    EmitOfItem(answer, names.delta, {{names.index, 0}, {"delta", event.text}}, out);
  }

  void SendContent(const ApiAnswer& answer, const AnswerEvent& event, std::string* out) {
    if (OpenItem(answer, OutputItem::Kind::kMessage, 0, out)) {
      EmitOfItem(answer, "response.content_part.added",
                 {{"content_index", 0}, {"part", TextPart("", JsonValue::Array())}}, out);
    }
    EmitTextDelta(answer, event.text, TextLogprobs(answer, &text_logprobs_), out);
  }

  void EmitTextDelta(const ApiAnswer& answer, std::string_view text, JsonValue logprobs,
                     std::string* out) {
    EmitOfItem(answer, "response.output_text.delta",
               {{"content_index", 0}, {"delta", text}, {"logprobs", std::move(logprobs)}}, out);
  }

  void SendCall(const ApiAnswer& answer, const AnswerEvent& event, std::string* out) {
    if (OpenItem(answer, KindOfCall(answer, event.call), event.call, out)) {
      input_ = {};
      n_input_told_ = 0;
    }
    if (event.kind != AnswerEvent::Kind::kArgumentsDelta) return;
    if (open_->kind == OutputItem::Kind::kFunctionCall) {
      EmitOfItem(answer, "response.function_call_arguments.delta", {{"delta", event.text}}, out);
    } else {
      EmitInputDelta(answer, input_.Feed(event.text), out);
    }
  }

  void EmitInputDelta(const ApiAnswer& answer, std::string_view text, std::string* out) {
    if (text.empty()) return;
    n_input_told_ += text.size();
    EmitOfItem(answer, "response.custom_tool_call_input.delta", {{"delta", text}}, out);
  }

  void CloseItem(const ApiAnswer& answer, std::string_view status, std::string* out) {
    const JsonValue item = FinishedItem(answer, *open_, status);
    switch (open_->kind) {
      case OutputItem::Kind::kReasoning: {
        const ReasoningEvents& names = NamesOf(answer);
        const std::string& text = answer.choices().front().collected().answer.reasoning_content;
        EmitOfItem(answer, names.done, {{names.index, 0}, {"text", text}}, out);
        EmitOfItem(answer, names.part_done, ReasoningPart(names, text), out);
        break;
      }
      case OutputItem::Kind::kMessage: {
        const JsonValue& part = item.Find("content")->items()[0];
        // A token whose end was dropped (a call or a stop string follows) is known to be text only
        // now.
        JsonValue late = TextLogprobs(answer, &text_logprobs_);
        if (!late.items().empty()) EmitTextDelta(answer, "", std::move(late), out);
        EmitOfItem(answer, "response.output_text.done",
                   {{"content_index", 0},
                    {"text", *part.Find("text")},
                    {"logprobs", *part.Find("logprobs")}},
                   out);
        EmitOfItem(answer, "response.content_part.done", {{"content_index", 0}, {"part", part}},
                   out);
        break;
      }
      case OutputItem::Kind::kFunctionCall:
        EmitOfItem(answer, "response.function_call_arguments.done",
                   {{"name", *item.Find("name")}, {"arguments", *item.Find("arguments")}}, out);
        break;
      case OutputItem::Kind::kCustomCall: {
        const std::string_view input = item.TextOf("input");
        EmitInputDelta(answer, input.substr(std::min(n_input_told_, input.size())), out);
        EmitOfItem(answer, "response.custom_tool_call_input.done", {{"input", input}}, out);
        break;
      }
    }
    Emit("response.output_item.done", {{"output_index", open_->index}, {"item", item}}, out);
  }

  static JsonValue ReasoningPart(const ReasoningEvents& names, std::string_view text) {
    return {{names.index, 0}, {"part", {{"type", names.part_type}, {"text", text}}}};
  }

  // A call that was cut off is not done: Codex runs every call that is done, and half a command may
  // do something else than the whole.
  bool IsCutCall(const ApiAnswer& answer) const {
    const bool is_call = open_->kind == OutputItem::Kind::kFunctionCall ||
                         open_->kind == OutputItem::Kind::kCustomCall;
    return is_call && !IsComplete(answer);
  }

  static const ReasoningEvents& NamesOf(const ApiAnswer& answer) {
    return ContextOf(answer)->summarizes ? kSummary : kPlain;
  }

  std::int64_t sequence_number_ = 0;
  std::optional<OutputItem> open_;
  ChatLogprobs text_logprobs_;    // sent in deltas
  CustomInputStream input_;       // for an open custom call
  std::size_t n_input_told_ = 0;  // bytes
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeResponsesFormat() { return std::make_unique<ResponsesFormat>(); }

}  // namespace fathom
