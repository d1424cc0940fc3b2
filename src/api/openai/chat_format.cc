#include "api/openai/openai_api.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/common/sse.h"
#include "api/openai/logprobs_json.h"
#include "api/openai/response_json.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

constexpr std::string_view kChunk = "chat.completion.chunk";

JsonValue MessageJson(const Answer& answer, bool include_reasoning) {
  JsonValue message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (answer.content.empty() && !answer.tool_calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning_content.empty() && include_reasoning) {
    // Some clients read the first name, some the second.
    message["reasoning_content"] = answer.reasoning_content;
    message["reasoning"] = answer.reasoning_content;
  }
  for (const ToolCall& call : answer.tool_calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

JsonValue CallDelta(JsonValue call) {
  return {{"tool_calls", JsonValue::Array({std::move(call)})}};
}

// Returns what an event adds to the message; null if nothing.
JsonValue DeltaJson(const AnswerEvent& event, bool include_reasoning) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoningDelta:
      if (!include_reasoning) return nullptr;
      return {{"reasoning_content", event.text}, {"reasoning", event.text}};
    case AnswerEvent::Kind::kContentDelta:
      return {{"content", event.text}};
    case AnswerEvent::Kind::kCallBegin:
      return CallDelta({{"index", event.call},
                        {"id", event.id},
                        {"type", "function"},
                        {"function", {{"name", event.name}, {"arguments", ""}}}});
    case AnswerEvent::Kind::kArgumentsDelta:
      return CallDelta({{"index", event.call}, {"function", {{"arguments", event.text}}}});
    case AnswerEvent::Kind::kCallEnd:
    case AnswerEvent::Kind::kFinish:
      break;
  }
  return nullptr;
}

bool IsEmpty(const JsonValue& logprobs) {
  return logprobs.IsNull() ||
         (logprobs.Find("content")->items.empty() && logprobs.Find("reasoning_content") == nullptr);
}

class ChatFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    const bool include_reasoning = answer.call().answers.include_reasoning;
    JsonValue list = JsonValue::Array();
    for (const AnswerCollector& choice : answer.choices()) {
      const CollectedAnswer& collected = choice.collected();
      const TokenSections& sections = answer.sections(list.items.size());
      ChatLogprobs logprobs;
      list.push_back({{"index", list.items.size()},
                      {"message", MessageJson(collected.answer, include_reasoning)},
                      {"logprobs", logprobs.Next(collected, sections.sections(), include_reasoning,
                                                 *answer.model().tokenizer)},
                      {"finish_reason", ChatFinishReasonName(collected.answer.finish_reason)},
                      {"stop_reason", StopReasonJson(collected)}});
    }
    JsonValue json = ResponseJson("chat.completion", answer.head(), std::move(list));
    json["usage"] = UsageJson(answer.usage());
    return WriteJson(json);
  }

  void Begin(const ApiAnswer& answer, std::string*) override {
    choices_.resize(answer.choices().size());
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    // Sent with the first token, because clients measure the first chunk.
    if (!std::exchange(choices_[piece.choice].has_begun, true)) {
      AppendChunk(answer, piece.choice,
                  {{"delta", {{"role", "assistant"}, {"content", ""}}},
                   {"logprobs", nullptr},
                   {"finish_reason", nullptr}},
                  out);
    }
    for (const AnswerEvent& event : piece.events) {
      if (event.kind == AnswerEvent::Kind::kFinish) {
        AppendFinish(answer, piece.choice, out);
        continue;
      }
      JsonValue delta = DeltaJson(event, answer.call().answers.include_reasoning);
      if (delta.IsNull()) continue;
      const bool is_reasoning = event.kind == AnswerEvent::Kind::kReasoningDelta;
      AppendChunk(answer, piece.choice,
                  {{"delta", std::move(delta)},
                   {"logprobs", Logprobs(answer, piece.choice, is_reasoning)},
                   {"finish_reason", nullptr}},
                  out);
    }
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    AppendStreamEnd(kChunk, answer, out);
  }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) override {
    out->append("data: ").append(ToJson(error)).append("\n\n");
  }

 private:
  struct Choice {
    bool has_begun = false;
    ChatLogprobs logprobs;
  };

  // Returns the log probabilities of the text of a chunk. After reasoning the same step may send
  // content.
  JsonValue Logprobs(const ApiAnswer& answer, std::size_t choice, bool is_reasoning) {
    const TokenSections& known = answer.sections(choice);
    std::span<const TokenSection> sections = known.sections();
    if (is_reasoning) sections = sections.first(static_cast<std::size_t>(known.n_reasoning()));
    JsonValue logprobs = choices_[choice].logprobs.Next(
        answer.choices()[choice].collected(), sections, answer.call().answers.include_reasoning,
        *answer.model().tokenizer);
    return IsEmpty(logprobs) ? JsonValue(nullptr) : logprobs;
  }

  void AppendFinish(const ApiAnswer& answer, std::size_t choice, std::string* out) {
    const CollectedAnswer& collected = answer.choices()[choice].collected();
    if (collected.error) return;  // Fail comes next
    AppendChunk(answer, choice,
                {{"delta", JsonValue::Object()},
                 {"logprobs", Logprobs(answer, choice, false)},
                 {"finish_reason", ChatFinishReasonName(collected.answer.finish_reason)},
                 {"stop_reason", StopReasonJson(collected)}},
                out);
  }

  static void AppendChunk(const ApiAnswer& answer, std::size_t choice, const JsonValue& fields,
                          std::string* out) {
    JsonValue entry = {{"index", choice}};
    entry.Update(fields);
    JsonValue chunk = ResponseJson(kChunk, answer.head(), JsonValue::Array({std::move(entry)}));
    AddChunkUsage(answer, &chunk);
    AppendSse(chunk, out);
  }

  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeChatFormat() { return std::make_unique<ChatFormat>(); }

}  // namespace fathom
