// The order of the events of one answer:
//
//   response.created, response.in_progress
//   events of the items, one item after another (responses_events.h): Codex reads only
//   output_item.done
//   response.completed | response.incomplete | response.failed
//
// Items that are open when the answer fails are incomplete, too. A response that fails before it
// begins has only the events created and failed.
//
// Reasoning is reported in one of the API's two ways. The plain way is reasoning_text: the text
// that the model wrote; a summary claims to be a shortened text. Both openai-python and Codex read
// both, but Codex shows reasoning_text only if it is set to show raw reasoning, and other clients
// read only summaries. So a client that asks for a summary gets the reasoning as a summary, instead
// of the text and never together with it: clients show or send back whatever they receive, and
// would have the text twice.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/common/answer_format.h"
#include "api/openai/logprobs_json.h"
#include "api/responses/responses_api.h"
#include "api/responses/responses_events.h"
#include "api/responses/responses_json.h"
#include "chat/custom_tool.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

class ResponsesFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    return WriteJson(FinishedResponse(answer));
  }

  void Begin(const ApiAnswer& answer, std::string* out) override {
    Create(answer, out);
    events_.Emit("response.in_progress", {{"response", StartedResponse(answer)}}, out);
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    for (const AnswerEvent& event : piece.events) {
      switch (event.kind) {
        case AnswerEvent::Kind::kReasoningDelta:
          OpenItem(answer, OutputItem::Kind::kReasoning, 0, out);
          events_.Add(event.text, out);
          break;
        case AnswerEvent::Kind::kContentDelta:
          OpenItem(answer, OutputItem::Kind::kMessage, 0, out);
          events_.Add(event.text, out, TextLogprobs(answer, &text_logprobs_));
          break;
        case AnswerEvent::Kind::kCallBegin:
        case AnswerEvent::Kind::kArgumentsDelta:
          SendCall(answer, event, out);
          break;
        case AnswerEvent::Kind::kCallEnd:  // the next event shows whether the call is complete
        case AnswerEvent::Kind::kFinish:
          break;
      }
    }
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    if (open_ && !IsCutCall(answer)) CloseItem(answer, FinishedStatus(answer, *open_), out);
    events_.Emit(IsComplete(answer) ? "response.completed" : "response.incomplete",
                 {{"response", FinishedResponse(answer)}}, out);
  }

  void Fail(const ApiAnswer& answer, const ApiError& error, std::string* out) override {
    if (!is_created_) Create(answer, out);
    events_.Emit("response.failed", {{"response", FailedResponse(answer, error)}}, out);
  }

 private:
  void Create(const ApiAnswer& answer, std::string* out) {
    is_created_ = true;
    events_.Emit("response.created", {{"response", StartedResponse(answer)}}, out);
  }

  // Opens the item that the event belongs to, unless it is open. Returns whether it opened one.
  bool OpenItem(const ApiAnswer& answer, OutputItem::Kind kind, std::size_t call,
                std::string* out) {
    if (open_ && open_->kind == kind && open_->call == call) return false;
    const std::size_t index = open_ ? open_->index + 1 : 0;
    if (open_) CloseItem(answer, "completed", out);
    open_ = OutputItem{.kind = kind, .index = index, .call = call};
    events_.Open(ItemJson(answer, *open_, "in_progress"), out);
    return true;
  }

  void SendCall(const ApiAnswer& answer, const AnswerEvent& event, std::string* out) {
    if (OpenItem(answer, OutputItem::Kind::kCall, event.call, out)) input_ = {};
    if (event.kind != AnswerEvent::Kind::kArgumentsDelta) return;
    if (KindOfCall(answer, event.call) == ToolKind::kCustom) {
      SendInput(input_.Feed(event.text), out);
    } else {
      events_.Add(event.text, out);
    }
  }

  void SendInput(std::string_view text, std::string* out) {
    if (!text.empty()) events_.Add(text, out);
  }

  void CloseItem(const ApiAnswer& answer, std::string_view status, std::string* out) {
    const JsonValue item = ItemJson(answer, *open_, status);
    if (open_->kind == OutputItem::Kind::kMessage) {
      // If the end of a token was dropped (a call or a stop string follows), the token is known to
      // be text only now.
      JsonValue late = TextLogprobs(answer, &text_logprobs_);
      if (!late.items().empty()) events_.Add("", out, std::move(late));
    } else if (open_->kind == OutputItem::Kind::kCall) {
      SendInput(input_.Rest(item.FindText("input")), out);
    }
    events_.Close(item, out);
  }

  // A call that was cut off is not done: Codex runs every call that is done, and half a command may
  // do something else than the whole command.
  bool IsCutCall(const ApiAnswer& answer) const {
    return open_->kind == OutputItem::Kind::kCall && !IsComplete(answer);
  }

  ResponseEvents events_;
  bool is_created_ = false;
  std::optional<OutputItem> open_;
  ChatLogprobs text_logprobs_;  // sent in deltas
  CustomInputStream input_;     // for an open custom call
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeResponsesFormat() { return std::make_unique<ResponsesFormat>(); }

}  // namespace fathom::api
