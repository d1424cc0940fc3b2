#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "api/anthropic/messages_api.h"
#include "api/anthropic/messages_blocks.h"
#include "api/anthropic/messages_error.h"
#include "api/common/sse.h"
#include "base/check.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// Input tokens are the computed ones; cached tokens are counted apart.
JsonValue MessagesUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

struct StopReason {
  std::string_view reason;
  JsonValue sequence;  // the stop string, or null
};

// A client runs the calls only if the stop reason is tool_use.
StopReason StopReasonOf(const CollectedAnswer& answer) {
  if (answer.answer.finish_reason == ChatFinishReason::kToolCalls) return {"tool_use", nullptr};
  if (answer.stop_string) return {"stop_sequence", *answer.stop_string};
  const bool is_cut = answer.answer.finish_reason == ChatFinishReason::kLength;
  return {is_cut ? "max_tokens" : "end_turn", nullptr};
}

// In valid JSON newlines stand only between its parts.
std::string OnOneLine(std::string json) {
  for (char& c : json) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return json;
}

std::string ContentJson(const Answer& answer, const std::string& signature) {
  std::string content;
  const auto add = [&content](const std::string& block) {
    content.append(content.empty() ? "" : ",").append(block);
  };
  if (!answer.reasoning_content.empty()) {
    add(WriteJson(
        {{"type", "thinking"}, {"thinking", answer.reasoning_content}, {"signature", signature}}));
  }
  if (!answer.content.empty()) add(WriteJson({{"type", "text"}, {"text", answer.content}}));
  for (const ToolCall& call : answer.tool_calls) {
    // Writes the arguments unchanged: the client gets the digits that the model wrote.
    add(fmt::format(R"({{"type":"tool_use","id":{},"name":{},"input":{}}})", WriteJson(call.id),
                    WriteJson(call.name), OnOneLine(call.arguments)));
  }
  return "[" + content + "]";
}

// Returns the message with an empty content.
JsonValue StartedMessage(const ApiAnswer& answer) {
  return {{"id", answer.head().id},        {"type", "message"},
          {"role", "assistant"},           {"model", answer.head().model},
          {"content", JsonValue::Array()}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr},      {"usage", MessagesUsage(answer.usage())}};
}

const CollectedAnswer& CollectedOf(const ApiAnswer& answer) {
  Check(answer.choices().size() == 1, "a message is one answer");
  return answer.choices()[0].collected();
}

// Any text but the empty one would do; this one names the answer in logs.
std::string SignatureOf(const ApiAnswer& answer) { return "fathom-" + answer.head().id; }

class MessagesFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    const CollectedAnswer& collected = CollectedOf(answer);
    const StopReason stop = StopReasonOf(collected);
    return fmt::format(R"({{"id":{},"type":"message","role":"assistant","model":{},"content":{},)"
                       R"("stop_reason":"{}","stop_sequence":{},"usage":{}}})",
                       WriteJson(answer.head().id), WriteJson(answer.head().model),
                       ContentJson(collected.answer, SignatureOf(answer)), stop.reason,
                       WriteJson(stop.sequence), WriteJson(MessagesUsage(answer.usage())));
  }

  void Begin(const ApiAnswer& answer, std::string* out) override {
    blocks_.emplace(SignatureOf(answer));
    AppendSse("message_start", {{"type", "message_start"}, {"message", StartedMessage(answer)}},
              out);
    AppendSse("ping", {{"type", "ping"}}, out);
  }

  void Add(const ApiAnswer&, const AnswerPiece& piece, std::string* out) override {
    for (const AnswerEvent& event : piece.events) blocks_->Add(event, out);
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    blocks_->End(out);
    const StopReason stop = StopReasonOf(CollectedOf(answer));
    AppendSse("message_delta",
              {{"type", "message_delta"},
               {"delta", {{"stop_reason", stop.reason}, {"stop_sequence", stop.sequence}}},
               {"usage", MessagesUsage(answer.usage())}},
              out);
    AppendSse("message_stop", {{"type", "message_stop"}}, out);
  }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) override {
    AppendSse("error", MessagesErrorJson(error), out);
  }

 private:
  std::optional<MessageBlocks> blocks_;  // from Begin on, for a stream
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeMessagesFormat() { return std::make_unique<MessagesFormat>(); }

}  // namespace fathom
