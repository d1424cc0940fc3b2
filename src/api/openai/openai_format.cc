#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/common/answer_format.h"
#include "api/openai/logprobs_json.h"
#include "api/openai/openai_api.h"
#include "chat/custom_tool.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {
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

// Returns a whole response: the choices and the usage.
JsonValue WholeJson(std::string_view object, const ApiAnswer& answer, JsonValue choices) {
  JsonValue json = ResponseJson(object, answer.head(), std::move(choices));
  json["usage"] = UsageJson(answer.usage());
  return json;
}

// Appends a chunk about one choice. If the call asked for the usage, it is in every chunk: null, or
// the usage so far. `fields` are added to the chunk.
void AppendChunk(std::string_view object, const ApiAnswer& answer, JsonValue choice,
                 std::string* out, const JsonValue& fields = JsonValue::Object()) {
  JsonValue chunk = ResponseJson(object, answer.head(), JsonValue::Array({std::move(choice)}));
  chunk.Update(fields);
  if (answer.call().include_usage) {
    const bool is_known = answer.call().continuous_usage;
    chunk["usage"] = is_known ? UsageJson(answer.usage()) : JsonValue(nullptr);
  }
  AppendSse(chunk, out);
}

// Returns the stop string or the stop token of the request that ended the choice, or null.
JsonValue StopReasonJson(const CollectedAnswer& answer) {
  if (answer.stop_string) return *answer.stop_string;
  if (answer.stop_token) return *answer.stop_token;
  return nullptr;
}

TokenNames NamesFor(const ApiAnswer& answer) {
  return {.tokenizer = *answer.model().tokenizer,
          .by_id = OpenAiContextIn(answer.call()).names_tokens_by_id};
}

// A choice that is being written. Logprobs: ChatLogprobs or CompletionLogprobs.
template <class Logprobs>
struct StreamedChoice {
  bool has_begun = false;
  std::size_t n_ids = 0;  // tokens whose ids are written
  Logprobs logprobs;
};

// Adds the ids of the tokens of a choice after the first n_written, if the client asked for them.
void AddTokenIds(const ApiAnswer& answer, std::size_t choice, std::size_t* n_written,
                 JsonValue* json) {
  if (!OpenAiContextIn(answer.call()).token_ids) return;
  const std::vector<Token>& tokens = answer.choices()[choice].collected().tokens;
  (*json)["token_ids"] = JsonValue::Array();
  for (; *n_written < tokens.size(); ++*n_written) {
    (*json)["token_ids"].push_back(tokens[*n_written]);
  }
}

// Adds the ids of a prompt, if the client asked for them.
void AddPromptIds(const ApiAnswer& answer, std::size_t request, JsonValue* json) {
  if (!OpenAiContextIn(answer.call()).token_ids) return;
  (*json)["prompt_token_ids"] = answer.call().requests[request].prompt;
}

void AddPromptLogprobs(const ApiAnswer& answer, std::size_t request, JsonValue* json) {
  const std::optional<int> count = OpenAiContextIn(answer.call()).prompt_logprobs;
  if (!count) return;
  (*json)["prompt_logprobs"] =
      PromptLogprobsJson(answer.prompt_logprobs(request), *count, *answer.model().tokenizer);
}

// Writes the begin and the end of a stream, equally for chat completions and completions.
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

bool IsLegacy(const ApiAnswer& answer) { return OpenAiContextIn(answer.call()).legacy_functions; }

std::string_view FinishName(ChatFinishReason reason, bool is_legacy) {
  const bool is_call = is_legacy && reason == ChatFinishReason::kToolCalls;
  return is_call ? "function_call" : ChatFinishReasonName(reason);
}

bool IsCustom(const ApiAnswer& answer, std::string_view tool) {
  return OpenAiContextIn(answer.call()).custom_tools.contains(tool);
}

// Returns a call of the tool of a message.
JsonValue CallJson(const ToolCall& call, bool is_custom) {
  if (is_custom) {
    return {{"id", call.id},
            {"type", "custom"},
            {"custom", {{"name", call.name}, {"input", CustomInput(call.arguments)}}}};
  }
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

JsonValue MessageJson(const ApiAnswer& told, const Answer& answer) {
  const bool include_reasoning = told.call().answers.include_reasoning;
  JsonValue message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (answer.content.empty() && !answer.tool_calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning_content.empty() && include_reasoning) {
    // Some clients read the first name, others the second.
    message["reasoning_content"] = answer.reasoning_content;
    message["reasoning"] = answer.reasoning_content;
  }
  for (const ToolCall& call : answer.tool_calls) {
    if (IsLegacy(told)) {
      message["function_call"] = {{"name", call.name}, {"arguments", call.arguments}};
      break;
    }
    message["tool_calls"].push_back(CallJson(call, IsCustom(told, call.name)));
  }
  return message;
}

// `call`: without its function. In the legacy form the delta is only the function.
JsonValue CallDelta(JsonValue call, JsonValue function, bool is_legacy) {
  if (is_legacy) return {{"function_call", std::move(function)}};
  call["function"] = std::move(function);
  return {{"tool_calls", JsonValue::Array({std::move(call)})}};
}

// Returns the additions of an event to the message; null if there are none.
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

// Returns the delta of an event of a call of a custom tool: its text, not the arguments that
// contain it; null if the event adds nothing. `input`: the state of the last call.
JsonValue CustomDelta(const AnswerEvent& event, const ToolCall& call, CustomInputStream* input) {
  if (event.kind == AnswerEvent::Kind::kCallBegin) {
    *input = {};
    return {
        {"tool_calls", JsonValue::Array({{{"index", event.call},
                                          {"id", event.id},
                                          {"type", "custom"},
                                          {"custom", {{"name", event.name}, {"input", ""}}}}})}};
  }
  // The end of a call yields the rest of the text, which was not certain before.
  std::string text = event.kind == AnswerEvent::Kind::kArgumentsDelta
                         ? input->Feed(event.text)
                         : std::string(input->Rest(CustomInput(call.arguments)));
  if (text.empty()) return nullptr;
  return {{"tool_calls",
           JsonValue::Array({{{"index", event.call}, {"custom", {{"input", std::move(text)}}}}})}};
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
    for (std::size_t i = 0; i < answer.choices().size(); ++i) {
      const CollectedAnswer& collected = answer.choices()[i].collected();
      ChatLogprobs logprobs;
      JsonValue choice = {
          {"index", i},
          {"message", MessageJson(answer, collected.answer)},
          {"logprobs", logprobs.Next(collected, answer.sections(i).sections(), include_reasoning,
                                     NamesFor(answer))},
          {"finish_reason", FinishName(collected.answer.finish_reason, IsLegacy(answer))},
          {"stop_reason", StopReasonJson(collected)}};
      std::size_t n_ids = 0;
      AddTokenIds(answer, i, &n_ids, &choice);
      list.push_back(std::move(choice));
    }
    JsonValue json = WholeJson("chat.completion", answer, std::move(list));
    AddPromptLogprobs(answer, 0, &json);
    AddPromptIds(answer, 0, &json);
    return WriteJson(json);
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    // Sent with the first token, because clients measure the first chunk.
    if (!std::exchange(choices_[piece.choice].has_begun, true)) {
      JsonValue prompt = JsonValue::Object();
      AddPromptIds(answer, 0, &prompt);
      AppendChunk(object_, answer,
                  {{"index", piece.choice},
                   {"delta", {{"role", "assistant"}, {"content", ""}}},
                   {"logprobs", nullptr},
                   {"finish_reason", nullptr}},
                  out, prompt);
    }
    for (const AnswerEvent& event : piece.events) {
      if (event.kind == AnswerEvent::Kind::kFinish) {
        AppendFinish(answer, piece.choice, out);
        continue;
      }
      JsonValue delta = Delta(answer, piece.choice, event);
      if (delta.IsNull()) continue;
      const bool is_reasoning = event.kind == AnswerEvent::Kind::kReasoningDelta;
      JsonValue choice = {{"index", piece.choice},
                          {"delta", std::move(delta)},
                          {"logprobs", Logprobs(answer, piece.choice, is_reasoning)},
                          {"finish_reason", nullptr}};
      AddTokenIds(answer, piece.choice, &choices_[piece.choice].n_ids, &choice);
      AppendChunk(object_, answer, std::move(choice), out);
    }
  }

 private:
  JsonValue Delta(const ApiAnswer& answer, std::size_t choice, const AnswerEvent& event) {
    if (event.is_of_call()) {
      const ToolCall& call = answer.choices()[choice].collected().answer.tool_calls[event.call];
      if (IsCustom(answer, call.name)) {
        return CustomDelta(event, call, &custom_inputs_[choice]);
      }
    }
    return DeltaJson(event, answer.call().answers.include_reasoning, IsLegacy(answer));
  }

  // Returns the log probabilities of the text of a chunk. After reasoning the same step may send
  // content.
  JsonValue Logprobs(const ApiAnswer& answer, std::size_t choice, bool is_reasoning) {
    const TokenSections& known = answer.sections(choice);
    std::span<const TokenSection> sections = known.sections();
    if (is_reasoning) sections = sections.first(static_cast<std::size_t>(known.n_reasoning()));
    JsonValue logprobs =
        choices_[choice].logprobs.Next(answer.choices()[choice].collected(), sections,
                                       answer.call().answers.include_reasoning, NamesFor(answer));
    return IsEmpty(logprobs) ? JsonValue(nullptr) : logprobs;
  }

  void AppendFinish(const ApiAnswer& answer, std::size_t choice, std::string* out) {
    const CollectedAnswer& collected = answer.choices()[choice].collected();
    if (collected.error) return;  // Fail comes next
    JsonValue json = {
        {"index", choice},
        {"delta", JsonValue::Object()},
        {"logprobs", Logprobs(answer, choice, false)},
        {"finish_reason", FinishName(collected.answer.finish_reason, IsLegacy(answer))},
        {"stop_reason", StopReasonJson(collected)}};
    AddTokenIds(answer, choice, &choices_[choice].n_ids, &json);
    AppendChunk(object_, answer, std::move(json), out);
  }

  std::map<std::size_t, CustomInputStream> custom_inputs_;  // by choice: the last call of each
};

// Returns the mean of the log probabilities of the answer's tokens; an empty answer is certain.
double MeanLogprob(const CollectedAnswer& answer) {
  double sum = 0;
  for (const TokenLogprobs& token : answer.logprobs) {
    sum += static_cast<double>(token.chosen.logprob);
  }
  return answer.logprobs.empty() ? 0 : sum / static_cast<double>(answer.logprobs.size());
}

class CompletionFormat final : public OpenAiFormat<CompletionLogprobs> {
 public:
  CompletionFormat() : OpenAiFormat("text_completion") {}

  std::string Whole(const ApiAnswer& answer) override {
    choices_.resize(answer.choices().size());
    JsonValue list = JsonValue::Array();
    for (std::size_t request = 0; request < answer.call().requests.size(); ++request) {
      for (const std::size_t choice : ToldChoices(answer, request)) {
        const std::string text =
            Echo(answer, request) + answer.choices()[choice].collected().answer.content;
        JsonValue json = ChoiceJson(answer, choice, list.items().size(), text, true);
        AddPromptLogprobs(answer, request, &json);
        list.push_back(std::move(json));
      }
    }
    return WriteJson(WholeJson(object_, answer, std::move(list)));
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    const bool begins = !choices_[piece.choice].has_begun;
    std::string text = begins ? Echo(answer, RequestIndex(answer, piece.choice)) : "";
    for (const AnswerEvent& event : piece.events) text += event.text;
    const CollectedAnswer& collected = answer.choices()[piece.choice].collected();
    const bool ends = collected.finish && !collected.error;
    if (text.empty() && !ends) return;
    AppendChunk(object_, answer, ChoiceJson(answer, piece.choice, piece.choice, text, ends), out);
  }

 private:
  static std::size_t RequestIndex(const ApiAnswer& answer, std::size_t choice) {
    return choice / static_cast<std::size_t>(answer.call().requests[0].n_choices);
  }

  // Returns the text with which the answers to a request begin.
  static std::string Echo(const ApiAnswer& answer, std::size_t request) {
    const std::vector<EchoedPrompt>& echoes = OpenAiContextIn(answer.call()).echoes;
    return echoes.empty() ? "" : echoes[request].text;
  }

  // Returns the choices of a request that the client receives: the most probable ones.
  static std::vector<std::size_t> ToldChoices(const ApiAnswer& answer, std::size_t request) {
    const auto n = static_cast<std::size_t>(answer.call().requests[request].n_choices);
    std::vector<std::size_t> choices(n);
    std::iota(choices.begin(), choices.end(), request * n);
    const auto n_told = static_cast<std::size_t>(OpenAiContextIn(answer.call()).n_told);
    if (n_told < n) {
      std::ranges::stable_sort(choices, std::greater(), [&](std::size_t choice) {
        return MeanLogprob(answer.choices()[choice].collected());
      });
      choices.resize(n_told);
    }
    return choices;
  }

  // Adds the prompt that the choice repeats. The begin token is not part of the client's text.
  void AddEchoedLogprobs(const ApiAnswer& answer, std::size_t choice) {
    const OpenAiContext& context = OpenAiContextIn(answer.call());
    if (context.echoes.empty()) return;
    const std::size_t request = RequestIndex(answer, choice);
    const std::size_t n_added = context.echoes[request].n_added;
    const std::span<const Token> prompt = answer.call().requests[request].prompt;
    const std::span<const TokenLogprobs> logprobs = answer.prompt_logprobs(request);
    choices_[choice].logprobs.AddPrompt(
        {.tokens = prompt.subspan(n_added),
         .logprobs = logprobs.subspan(std::min(n_added, logprobs.size()))},
        *context.logprobs, NamesFor(answer));
  }

  JsonValue ChoiceJson(const ApiAnswer& answer, std::size_t choice, std::size_t index,
                       std::string_view text, bool ends) {
    StreamedChoice<CompletionLogprobs>& written = choices_[choice];
    const CollectedAnswer& collected = answer.choices()[choice].collected();
    const bool has_logprobs = OpenAiContextIn(answer.call()).logprobs.has_value();
    const bool begins = !std::exchange(written.has_begun, true);
    if (begins && has_logprobs) AddEchoedLogprobs(answer, choice);
    JsonValue json = {
        {"index", index},
        {"text", text},
        {"logprobs", has_logprobs
                         ? written.logprobs.Next(collected, answer.sections(choice).sections(),
                                                 NamesFor(answer))
                         : JsonValue(nullptr)},
        {"finish_reason", ends ? JsonValue(ChatFinishReasonName(collected.answer.finish_reason))
                               : JsonValue(nullptr)},
        {"stop_reason", ends ? StopReasonJson(collected) : JsonValue(nullptr)}};
    if (begins) AddPromptIds(answer, RequestIndex(answer, choice), &json);
    AddTokenIds(answer, choice, &written.n_ids, &json);
    return json;
  }
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeChatFormat() { return std::make_unique<ChatFormat>(); }

std::unique_ptr<AnswerFormat> MakeCompletionFormat() {
  return std::make_unique<CompletionFormat>();
}

}  // namespace fathom::api
