#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/common/answer_format.h"
#include "api/openai/logprobs_json.h"
#include "api/openai/openai_api.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// Returns a response, or a chunk of one, with these choices and without usage.
JsonValue ResponseJson(std::string_view object, const ResponseHead& head, JsonValue choices) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint},
          {"choices", std::move(choices)}};
}

JsonValue UsageJson(const Usage& usage) {
  JsonValue completion = {{"reasoning_tokens", usage.reasoning_tokens}};
  if (usage.drafted_tokens > 0) {
    completion["accepted_prediction_tokens"] = usage.accepted_tokens;
    completion["rejected_prediction_tokens"] = usage.drafted_tokens - usage.accepted_tokens;
  }
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", std::move(completion)},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens}};
}

// Writes a whole response: the choices and the usage.
std::string WholeResponse(std::string_view object, const ApiAnswer& answer, JsonValue choices) {
  JsonValue json = ResponseJson(object, answer.head(), std::move(choices));
  json["usage"] = UsageJson(answer.usage());
  return WriteJson(json);
}

// Appends a chunk about one choice. If the call asked for the usage, it is in every chunk: null, or
// the usage so far.
void AppendChunk(std::string_view object, const ApiAnswer& answer, JsonValue choice,
                 std::string* out) {
  JsonValue chunk = ResponseJson(object, answer.head(), JsonValue::Array({std::move(choice)}));
  if (answer.call().include_usage) {
    const bool is_known = answer.call().continuous_usage;
    chunk["usage"] = is_known ? UsageJson(answer.usage()) : JsonValue(nullptr);
  }
  AppendSse(chunk, out);
}

// Returns what ended the choice: a stop string, a stop token of the request, or null.
JsonValue StopReasonJson(const CollectedAnswer& answer) {
  if (answer.stop_string) return *answer.stop_string;
  if (answer.stop_token) return *answer.stop_token;
  return nullptr;
}

// A choice that is being written. Logprobs: ChatLogprobs or CompletionLogprobs.
template <class Logprobs>
struct StreamedChoice {
  bool has_begun = false;
  Logprobs logprobs;
};

// The begin and the end of a stream, alike for chat completions and completions.
template <class Logprobs>
class OpenAiFormat : public AnswerFormat {
 public:
  // object: the name of a chunk.
  explicit OpenAiFormat(std::string_view object) : object_(object) {}

  void Begin(const ApiAnswer& answer, std::string*) final {
    choices_.resize(answer.choices().size());
  }

  // Appends the usage, if the call asked for it, and the end mark.
  void End(const ApiAnswer& answer, std::string* out) final {
    if (answer.call().include_usage) {
      JsonValue chunk = ResponseJson(object_, answer.head(), JsonValue::Array());
      chunk["usage"] = UsageJson(answer.usage());
      AppendSse(chunk, out);
    }
    out->append(kSseDone);
  }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) final {
    out->append("data: ").append(ToJson(error)).append("\n\n");
  }

 protected:
  const std::string_view object_;
  std::vector<StreamedChoice<Logprobs>> choices_;
};

bool IsLegacy(const ApiAnswer& answer) {
  return std::any_cast<LegacyFunctions>(&answer.call().context) != nullptr;
}

std::string_view FinishName(ChatFinishReason reason, bool is_legacy) {
  const bool is_call = is_legacy && reason == ChatFinishReason::kToolCalls;
  return is_call ? "function_call" : ChatFinishReasonName(reason);
}

JsonValue MessageJson(const Answer& answer, bool include_reasoning, bool is_legacy) {
  JsonValue message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (answer.content.empty() && !answer.tool_calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning_content.empty() && include_reasoning) {
    // Some clients read the first name, some the second.
    message["reasoning_content"] = answer.reasoning_content;
    message["reasoning"] = answer.reasoning_content;
  }
  for (const ToolCall& call : answer.tool_calls) {
    if (is_legacy) {
      message["function_call"] = {{"name", call.name}, {"arguments", call.arguments}};
      break;
    }
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

// `call`: without its function. Before there were several calls, the function was all there was.
JsonValue CallDelta(JsonValue call, JsonValue function, bool is_legacy) {
  if (is_legacy) return {{"function_call", std::move(function)}};
  call["function"] = std::move(function);
  return {{"tool_calls", JsonValue::Array({std::move(call)})}};
}

// Returns what an event adds to the message; null if nothing.
JsonValue DeltaJson(const AnswerEvent& event, bool include_reasoning, bool is_legacy) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoningDelta:
      if (!include_reasoning) return nullptr;
      return {{"reasoning_content", event.text}, {"reasoning", event.text}};
    case AnswerEvent::Kind::kContentDelta:
      return {{"content", event.text}};
    case AnswerEvent::Kind::kCallBegin:
      return CallDelta({{"index", event.call}, {"id", event.id}, {"type", "function"}},
                       {{"name", event.name}, {"arguments", ""}}, is_legacy);
    case AnswerEvent::Kind::kArgumentsDelta:
      return CallDelta({{"index", event.call}}, {{"arguments", event.text}}, is_legacy);
    case AnswerEvent::Kind::kCallEnd:
    case AnswerEvent::Kind::kFinish:
      break;
  }
  return nullptr;
}

bool IsEmpty(const JsonValue& logprobs) {
  return logprobs.IsNull() || (logprobs.Find("content")->items().empty() &&
                               logprobs.Find("reasoning_content") == nullptr);
}

class ChatFormat final : public OpenAiFormat<ChatLogprobs> {
 public:
  ChatFormat() : OpenAiFormat("chat.completion.chunk") {}

  std::string Whole(const ApiAnswer& answer) override {
    const bool include_reasoning = answer.call().answers.include_reasoning;
    JsonValue list = JsonValue::Array();
    for (const AnswerCollector& choice : answer.choices()) {
      const CollectedAnswer& collected = choice.collected();
      const TokenSections& sections = answer.sections(list.items().size());
      ChatLogprobs logprobs;
      list.push_back(
          {{"index", list.items().size()},
           {"message", MessageJson(collected.answer, include_reasoning, IsLegacy(answer))},
           {"logprobs", logprobs.Next(collected, sections.sections(), include_reasoning,
                                      *answer.model().tokenizer)},
           {"finish_reason", FinishName(collected.answer.finish_reason, IsLegacy(answer))},
           {"stop_reason", StopReasonJson(collected)}});
    }
    return WholeResponse("chat.completion", answer, std::move(list));
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    // Sent with the first token, because clients measure the first chunk.
    if (!std::exchange(choices_[piece.choice].has_begun, true)) {
      AppendChunk(object_, answer,
                  {{"index", piece.choice},
                   {"delta", {{"role", "assistant"}, {"content", ""}}},
                   {"logprobs", nullptr},
                   {"finish_reason", nullptr}},
                  out);
    }
    for (const AnswerEvent& event : piece.events) {
      if (event.kind == AnswerEvent::Kind::kFinish) {
        AppendFinish(answer, piece.choice, out);
        continue;
      }
      JsonValue delta = DeltaJson(event, answer.call().answers.include_reasoning, IsLegacy(answer));
      if (delta.IsNull()) continue;
      const bool is_reasoning = event.kind == AnswerEvent::Kind::kReasoningDelta;
      AppendChunk(object_, answer,
                  {{"index", piece.choice},
                   {"delta", std::move(delta)},
                   {"logprobs", Logprobs(answer, piece.choice, is_reasoning)},
                   {"finish_reason", nullptr}},
                  out);
    }
  }

 private:
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
    AppendChunk(object_, answer,
                {{"index", choice},
                 {"delta", JsonValue::Object()},
                 {"logprobs", Logprobs(answer, choice, false)},
                 {"finish_reason", FinishName(collected.answer.finish_reason, IsLegacy(answer))},
                 {"stop_reason", StopReasonJson(collected)}},
                out);
  }
};

// Returns the text that a choice begins with.
std::string EchoedPrompt(const ApiAnswer& answer, std::size_t choice) {
  const ApiCall& call = answer.call();
  if (call.echoes.empty()) return "";
  return call.echoes[choice / static_cast<std::size_t>(call.requests[0].n_choices)];
}

class CompletionFormat final : public OpenAiFormat<CompletionLogprobs> {
 public:
  CompletionFormat() : OpenAiFormat("text_completion") {}

  std::string Whole(const ApiAnswer& answer) override {
    choices_.resize(answer.choices().size());
    JsonValue list = JsonValue::Array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const CollectedAnswer& collected = answer.choices()[i].collected();
      list.push_back(
          ChoiceJson(answer, i, EchoedPrompt(answer, i) + collected.answer.content, true));
    }
    return WholeResponse(object_, answer, std::move(list));
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    std::string text;
    if (!std::exchange(choices_[piece.choice].has_begun, true)) {
      text = EchoedPrompt(answer, piece.choice);
    }
    for (const AnswerEvent& event : piece.events) text += event.text;
    const CollectedAnswer& collected = answer.choices()[piece.choice].collected();
    const bool ends = collected.finish && !collected.error;
    if (text.empty() && !ends) return;
    AppendChunk(object_, answer, ChoiceJson(answer, piece.choice, text, ends), out);
  }

 private:
  JsonValue ChoiceJson(const ApiAnswer& answer, std::size_t choice, std::string_view text,
                       bool ends) {
    const CollectedAnswer& collected = answer.choices()[choice].collected();
    return {
        {"index", choice},
        {"text", text},
        {"logprobs", choices_[choice].logprobs.Next(collected, answer.sections(choice).sections(),
                                                    *answer.model().tokenizer)},
        {"finish_reason", ends ? JsonValue(ChatFinishReasonName(collected.answer.finish_reason))
                               : JsonValue(nullptr)},
        {"stop_reason", ends ? StopReasonJson(collected) : JsonValue(nullptr)}};
  }
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeChatFormat() { return std::make_unique<ChatFormat>(); }

std::unique_ptr<AnswerFormat> MakeCompletionFormat() {
  return std::make_unique<CompletionFormat>();
}

}  // namespace fathom
