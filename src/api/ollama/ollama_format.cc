#include "api/ollama/ollama_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/answer.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// The part of an answer that one line contains.
struct LinePart {
  std::string_view content{};
  std::string_view thinking{};
  std::string calls{};  // JSON objects with commas between them
};

// Returns nothing for a call that is not reported (CallInput).
std::string LineCall(const ApiAnswer& answer, std::size_t call) {
  const Answer& collected = answer.choices()[0].collected().answer;
  const std::optional<std::string> input =
      CallInput(collected, call, *answer.call().answers.parser.tools);
  if (!input) return "";
  const ToolCall& tool_call = collected.tool_calls[call];
  return fmt::format(R"({{"id":{},"function":{{"index":{},"name":{},"arguments":{}}}}})",
                     WriteJson(tool_call.id), call, WriteJson(tool_call.name), *input);
}

std::int64_t Nanoseconds(double seconds) {
  constexpr double kNanosecondsPerSecond = 1e9;
  // Clients divide by durations.
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds * kNanosecondsPerSecond));
}

// Returns the last members of the last object.
std::string DoneJson(const ApiAnswer& answer) {
  if (answer.choices().empty()) return R"("done":true,"done_reason":"load")";
  const bool is_cut =
      answer.choices()[0].collected().answer.finish_reason == ChatFinishReason::kLength;
  const AnswerTimes& times = answer.times();
  const Usage usage = answer.usage();
  const std::string json =
      WriteJson({{"done", true},
                 {"done_reason", is_cut ? "length" : "stop"},
                 {"total_duration",
                  Nanoseconds(times.queue_seconds + times.prefill_seconds + times.decode_seconds)},
                 {"load_duration", 0},
                 {"prompt_eval_count", usage.prompt_tokens},
                 {"prompt_eval_duration", Nanoseconds(times.prefill_seconds)},
                 {"eval_count", usage.completion_tokens},
                 {"eval_duration", Nanoseconds(times.decode_seconds)}});
  return json.substr(1, json.size() - 2);
}

class OllamaFormat final : public AnswerFormat {
 public:
  explicit OllamaFormat(bool is_chat) : is_chat_(is_chat) {}

  std::string_view ContentType() const override { return "application/x-ndjson"; }

  std::string Whole(const ApiAnswer& answer) override {
    LinePart part;
    if (!answer.choices().empty()) {
      const Answer& collected = answer.choices()[0].collected().answer;
      part = {.content = collected.content, .thinking = collected.reasoning_content};
      for (std::size_t i = 0; i < collected.tool_calls.size(); ++i) {
        const std::string call = LineCall(answer, i);
        if (!part.calls.empty() && !call.empty()) part.calls += ',';
        part.calls += call;
      }
    }
    return Object(answer, part, DoneJson(answer));
  }

  // A stream begins with its first sign of life or token; no text precedes them.
  bool BeginsInQueue() const override { return true; }
  void Begin(const ApiAnswer& answer, std::string*) override {
    sign_of_life_ = Object(answer, {}, kNotDone) + '\n';
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    for (const AnswerEvent& event : piece.events) {
      LinePart part;
      if (event.kind == AnswerEvent::Kind::kReasoningDelta) part.thinking = event.text;
      if (event.kind == AnswerEvent::Kind::kContentDelta) part.content = event.text;
      if (event.kind == AnswerEvent::Kind::kCallEnd) part.calls = LineCall(answer, event.call);
      if (part.thinking.empty() && part.content.empty() && part.calls.empty()) continue;
      out->append(Object(answer, part, kNotDone)).append("\n");
    }
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    out->append(Object(answer, {}, DoneJson(answer))).append("\n");
  }

  // Clients read only objects and append the text of each.
  void SignOfLife(std::string* out) override { out->append(sign_of_life_); }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) override {
    out->append(OllamaError(error).body).append("\n");
  }

 private:
  static constexpr std::string_view kNotDone = R"("done":false)";

  // `done`: the last members of the object.
  std::string Object(const ApiAnswer& answer, const LinePart& part, std::string_view done) const {
    const std::string thinking =
        part.thinking.empty() ? "" : fmt::format(R"(,"thinking":{})", WriteJson(part.thinking));
    const std::string calls =
        part.calls.empty() ? "" : fmt::format(R"(,"tool_calls":[{}])", part.calls);
    const std::string content = WriteJson(part.content);
    const std::string text =
        is_chat_ ? fmt::format(R"("message":{{"role":"assistant","content":{}{}{}}})", content,
                               thinking, calls)
                 : fmt::format(R"("response":{}{})", content, thinking);
    return fmt::format(R"({{"model":{},"created_at":"{}",{},{}}})", WriteJson(answer.head().model),
                       OllamaTime(answer.head().created), text, done);
  }

  const bool is_chat_;
  std::string sign_of_life_;  // from Begin on
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeOllamaChatFormat() {
  return std::make_unique<OllamaFormat>(/*is_chat=*/true);
}

std::unique_ptr<AnswerFormat> MakeOllamaGenerateFormat() {
  return std::make_unique<OllamaFormat>(/*is_chat=*/false);
}

}  // namespace fathom::api
