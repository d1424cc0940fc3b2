#include "api/openai/openai_api.h"

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

constexpr std::string_view kObject = "text_completion";

// Returns the text that a choice begins with.
std::string EchoedPrompt(const ApiAnswer& answer, std::size_t choice) {
  const ApiCall& call = answer.call();
  if (call.echoes.empty()) return "";
  return call.echoes[choice / static_cast<std::size_t>(call.requests[0].n_choices)];
}

class CompletionFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    choices_.resize(answer.choices().size());
    JsonValue list = JsonValue::Array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const CollectedAnswer& collected = answer.choices()[i].collected();
      list.push_back(
          ChoiceJson(answer, i, EchoedPrompt(answer, i) + collected.answer.content, true));
    }
    JsonValue json = ResponseJson(kObject, answer.head(), std::move(list));
    json["usage"] = UsageJson(answer.usage());
    return WriteJson(json);
  }

  void Begin(const ApiAnswer& answer, std::string*) override {
    choices_.resize(answer.choices().size());
  }

  void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) override {
    std::string text;
    if (!std::exchange(choices_[piece.choice].has_begun, true))
      text = EchoedPrompt(answer, piece.choice);
    for (const AnswerEvent& event : piece.events) text += event.text;
    const CollectedAnswer& collected = answer.choices()[piece.choice].collected();
    const bool ends = collected.finish && !collected.error;
    if (text.empty() && !ends) return;
    JsonValue chunk = ResponseJson(
        kObject, answer.head(), JsonValue::Array({ChoiceJson(answer, piece.choice, text, ends)}));
    AddChunkUsage(answer, &chunk);
    AppendSse(chunk, out);
  }

  void End(const ApiAnswer& answer, std::string* out) override {
    AppendStreamEnd(kObject, answer, out);
  }

  void Fail(const ApiAnswer&, const ApiError& error, std::string* out) override {
    out->append("data: ").append(ToJson(error)).append("\n\n");
  }

 private:
  struct Choice {
    bool has_begun = false;
    CompletionLogprobs logprobs;
  };

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

  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeCompletionFormat() {
  return std::make_unique<CompletionFormat>();
}

}  // namespace fathom
