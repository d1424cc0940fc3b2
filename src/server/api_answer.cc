#include "server/api_answer.h"

#include "base/check.h"
#include "server/token_sections.h"

namespace fathom {
namespace {

std::string_view IdPrefix(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions ? "chatcmpl-" : "cmpl-";
}

}  // namespace

ApiAnswer::ApiAnswer(const ApiCall& call, const ApiModel& model, const RandomBits& random_bits)
    : call_(call), model_(model), id_(MakeId(IdPrefix(call.endpoint), random_bits)) {
  for (const Request& request : call.requests) {
    for (int i = 0; i < request.n_choices; ++i) {
      choices_.emplace_back(call.answers, random_bits);
    }
  }
}

std::size_t ApiAnswer::FirstChoice(std::size_t request) const {
  // All requests of a call have as many choices.
  return request * static_cast<std::size_t>(call_.requests[request].n_choices);
}

void ApiAnswer::Add(std::size_t request, const StreamEvent& event) {
  Check(event.choice < static_cast<std::uint32_t>(call_.requests[request].n_choices),
        "an event of a choice that was not asked for");
  choices_[FirstChoice(request) + event.choice].Add(event);
}

void ApiAnswer::End(std::size_t request, const RequestStats& stats) {
  usage_.prompt_tokens += stats.prompt_tokens;
  usage_.cached_tokens += stats.cached_tokens;
  usage_.completion_tokens += stats.generated_tokens;
  const std::size_t first = FirstChoice(request);
  for (int i = 0; i < call_.requests[request].n_choices; ++i) {
    const CollectedAnswer& answer = choices_[first + static_cast<std::size_t>(i)].collected();
    usage_.reasoning_tokens += CountReasoning(SectionsOf(answer, *model_.tokenizer));
  }
}

ApiReply ApiAnswer::Reply(std::int64_t created) const {
  for (const AnswerCollector& choice : choices_) {
    Check(choice.finished(), "a response before its choices have finished");
    if (choice.collected().error) {
      const ApiError error = ToApiError(*choice.collected().error);
      return {.status = error.status, .body = ToJson(error)};
    }
  }
  const ResponseHead head = {
      .id = id_, .created = created, .model = call_.model, .fingerprint = model_.fingerprint};
  return {.status = 200,
          .body = call_.endpoint == Endpoint::kChatCompletions
                      ? ChatCompletionJson(head, choices_, call_.answers, usage_, *model_.tokenizer)
                      : CompletionJson(head, choices_, usage_, *model_.tokenizer)};
}

}  // namespace fathom
