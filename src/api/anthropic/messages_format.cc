#include "api/anthropic/messages_format.h"

#include <fmt/format.h>

#include <string_view>

#include "api/common/reasoning_token.h"
#include "base/check.h"
#include "chat/answer.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

constexpr int kOverloaded = 529;

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case kOverloaded:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string ErrorMessage(const ApiError& error) {
  if (error.overflow) {
    return fmt::format("prompt is too long: {} tokens > {} maximum", error.overflow->prompt_tokens,
                       error.overflow->max_context);
  }
  const bool names_field = error.param.empty() || error.message.starts_with(error.param);
  return names_field ? error.message : fmt::format("{}: {}", error.param, error.message);
}

void AppendEvent(std::string_view type, JsonValue fields, std::string* out) {
  JsonValue json = {{"type", type}};
  json.Update(std::move(fields));
  AppendSse(type, json, out);
}

// Input tokens are the computed ones; cached tokens are counted separately.
JsonValue MessagesUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

const CollectedAnswer& OnlyAnswer(const ApiAnswer& answer) {
  Check(answer.choices().size() == 1, "a message is one answer");
  return answer.choices()[0].collected();
}

struct StopReason {
  std::string_view reason;
  JsonValue sequence;  // the stop string, or null
};

// A client runs the calls only if the stop reason is tool_use, and asks for the rest of an answer
// only if there is room for it.
StopReason FindStopReason(const ApiAnswer& message) {
  const CollectedAnswer& answer = OnlyAnswer(message);
  if (answer.answer.finish_reason == ChatFinishReason::kToolCalls) return {"tool_use", nullptr};
  if (answer.stop_string) return {"stop_sequence", *answer.stop_string};
  if (answer.answer.finish_reason != ChatFinishReason::kLength) return {"end_turn", nullptr};
  return {message.IsCutByContext(0) ? "model_context_window_exceeded" : "max_tokens", nullptr};
}

// `signature`: see MessageBlocks.
std::string ContentJson(const Answer& answer, const std::string& signature,
                        const ToolSchemas& tools) {
  std::string content;
  const auto add = [&content](const std::string& block) {
    content.append(content.empty() ? "" : ",").append(block);
  };
  if (!answer.reasoning_content.empty()) {
    const std::string& thinking = answer.reasoning_content;
    const bool is_shown = !signature.empty();
    add(WriteJson({{"type", "thinking"},
                   {"thinking", is_shown ? thinking : std::string()},
                   {"signature", is_shown ? signature : MakeReasoningToken(thinking)}}));
  }
  if (!answer.content.empty()) add(WriteJson({{"type", "text"}, {"text", answer.content}}));
  for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
    const ToolCall& call = answer.tool_calls[i];
    // Writes the arguments unchanged: the client gets the digits that the model wrote.
    const std::optional<std::string> input = CallInput(answer, i, tools);
    if (!input) continue;
    add(fmt::format(R"({{"type":"tool_use","id":{},"name":{},"input":{}}})", WriteJson(call.id),
                    WriteJson(call.name), *input));
  }
  return "[" + content + "]";
}

// Returns the message with an empty content. While it waits, the number of cached tokens of the
// prompt is not known; message_delta contains it.
JsonValue StartedMessage(const ApiAnswer& answer) {
  return {{"id", answer.head().id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", answer.head().model},
          {"content", JsonValue::Array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", MessagesUsage({.prompt_tokens = answer.n_prompt()})}};
}

// Any non-empty text would do; this one names the answer in logs.
std::string MakeSignature(const ApiAnswer& answer) {
  return answer.call().answers.include_reasoning ? "fathom-" + answer.head().id : "";
}

class MessagesFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    const CollectedAnswer& collected = OnlyAnswer(answer);
    const StopReason stop = FindStopReason(answer);
    return fmt::format(
        R"({{"id":{},"type":"message","role":"assistant","model":{},"content":{},)"
        R"("stop_reason":"{}","stop_sequence":{},"usage":{}}})",
        WriteJson(answer.head().id), WriteJson(answer.head().model),
        ContentJson(collected.answer, MakeSignature(answer), *answer.call().answers.parser.tools),
        stop.reason, WriteJson(stop.sequence), WriteJson(MessagesUsage(answer.usage())));
  }

  // Claude Code treats a stream that begins late as stalled, and accepts only events as signs of
  // life.
  bool BeginsInQueue() const override { return true; }

  void Begin(const ApiAnswer& answer, std::string* out) override {
    blocks_.emplace(MakeSignature(answer));
    AppendEvent("message_start", {{"message", StartedMessage(answer)}}, out);
    SignOfLife(out);
  }

  void SignOfLife(std::string* out) override { AppendEvent("ping", JsonValue::Object(), out); }

  void Add(const ApiAnswer&, const AnswerPiece& piece, std::string* out) override {
    for (const AnswerEvent& event : piece.events) blocks_->Add(event, out);
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    blocks_->End(out);
    const StopReason stop = FindStopReason(answer);
    AppendEvent("message_delta",
                {{"delta", {{"stop_reason", stop.reason}, {"stop_sequence", stop.sequence}}},
                 {"usage", MessagesUsage(answer.usage())}},
                out);
    AppendEvent("message_stop", JsonValue::Object(), out);
  }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) override {
    AppendSse("error", MessagesErrorJson(error), out);
  }

 private:
  std::optional<MessageBlocks> blocks_;  // from Begin on, for a stream
};

}  // namespace

int MessagesStatus(const ApiError& error) {
  return error.status == 503 ? kOverloaded : error.status;
}

JsonValue MessagesErrorJson(const ApiError& error) {
  JsonValue json = {
      {"type", "error"},
      {"error", {{"type", ErrorType(MessagesStatus(error))}, {"message", ErrorMessage(error)}}}};
  if (!error.issues.empty()) {
    JsonValue& fields = json["error"];
    fields["code"] = error.code;
    fields["param"] = error.param;
    fields["errors"] = IssuesJson(error);
  }
  if (!error.request_id.empty()) json["request_id"] = error.request_id;
  return json;
}

void MessageBlocks::Add(const AnswerEvent& event, std::string* out) {
  const bool is_of_call =
      event.kind == AnswerEvent::Kind::kArgumentsDelta || event.kind == AnswerEvent::Kind::kCallEnd;
  if (open_ == AnswerEvent::Kind::kCallBegin && !(is_of_call && event.call == call_)) {
    waiting_.push_back(event);
    return;
  }
  Write(event, out);
  if (event.kind != AnswerEvent::Kind::kCallEnd) return;
  for (const AnswerEvent& next : std::exchange(waiting_, {})) Add(next, out);
}

void MessageBlocks::End(std::string* out) {
  Close(out);
  // Happens only if a call never ended; the parser ends all calls.
  for (const AnswerEvent& next : std::exchange(waiting_, {})) Write(next, out);
  Close(out);
}

void MessageBlocks::Write(const AnswerEvent& event, std::string* out) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoningDelta:
      if (open_ != event.kind) {
        Open(event.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
      }
      if (signature_.empty()) {
        hidden_ += event.text;
      } else {
        Delta({{"type", "thinking_delta"}, {"thinking", event.text}}, out);
      }
      break;
    case AnswerEvent::Kind::kContentDelta:
      if (open_ != event.kind) Open(event.kind, {{"type", "text"}, {"text", ""}}, out);
      Delta({{"type", "text_delta"}, {"text", event.text}}, out);
      break;
    case AnswerEvent::Kind::kCallBegin:
      call_ = event.call;
      Open(event.kind,
           {{"type", "tool_use"},
            {"id", event.id},
            {"name", event.name},
            {"input", JsonValue::Object()}},
           out);
      break;
    case AnswerEvent::Kind::kArgumentsDelta:
      Delta({{"type", "input_json_delta"}, {"partial_json", event.text}}, out);
      break;
    case AnswerEvent::Kind::kCallEnd:
      Close(out);
      break;
    case AnswerEvent::Kind::kFinish:
      break;
  }
}

void MessageBlocks::Open(AnswerEvent::Kind kind, const JsonValue& block, std::string* out) {
  Close(out);
  open_ = kind;
  AppendEvent("content_block_start", {{"index", index_}, {"content_block", block}}, out);
}

void MessageBlocks::Delta(const JsonValue& delta, std::string* out) const {
  AppendEvent("content_block_delta", {{"index", index_}, {"delta", delta}}, out);
}

void MessageBlocks::Close(std::string* out) {
  if (!open_) return;
  if (open_ == AnswerEvent::Kind::kReasoningDelta) {
    Delta({{"type", "signature_delta"},
           {"signature", signature_.empty() ? MakeReasoningToken(hidden_) : signature_}},
          out);
    hidden_.clear();
  }
  AppendEvent("content_block_stop", {{"index", index_}}, out);
  open_.reset();
  ++index_;
}

std::unique_ptr<AnswerFormat> MakeMessagesFormat() { return std::make_unique<MessagesFormat>(); }

}  // namespace fathom::api
