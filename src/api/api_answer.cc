#include "api/api_answer.h"

#include "api/token_sections.h"
#include "base/check.h"

namespace fathom {
namespace {

std::string_view IdPrefix(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return "chatcmpl-";
    case Endpoint::kCompletions:
      return "cmpl-";
    case Endpoint::kResponses:
      return "resp_";
    case Endpoint::kMessages:
      break;
  }
  return "msg_";
}

}  // namespace

ApiAnswer::ApiAnswer(const ApiCall& call, const ApiModel& model, std::int64_t created,
                     const RandomBits& random_bits)
    : call_(call),
      model_(model),
      random_bits_(random_bits),
      head_{.id = MakeId(IdPrefix(call.endpoint), random_bits),
            .created = created,
            .model = call.model,
            .fingerprint = model.fingerprint},
      started_(call.requests.size(), false) {
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

void ApiAnswer::Start(std::size_t request, const RequestStats& stats) {
  if (started_[request]) return;
  started_[request] = true;
  usage_.prompt_tokens += stats.prompt_tokens;
  usage_.cached_tokens += stats.cached_tokens;
}

AnswerPiece ApiAnswer::Add(std::size_t request, const StreamEvent& event) {
  Check(event.choice < static_cast<std::uint32_t>(call_.requests[request].n_choices),
        "an event of a choice that was not asked for");
  const std::size_t choice = FirstChoice(request) + event.choice;
  return {.choice = choice, .event = event, .events = choices_[choice].Add(event)};
}

void ApiAnswer::End(std::size_t request, const RequestStats& stats) {
  Start(request, stats);
  usage_.completion_tokens += stats.generated_tokens;
  usage_.drafted_tokens += stats.drafted_tokens;
  usage_.accepted_tokens += stats.accepted_tokens;
  const std::size_t first = FirstChoice(request);
  for (int i = 0; i < call_.requests[request].n_choices; ++i) {
    const CollectedAnswer& answer = choices_[first + static_cast<std::size_t>(i)].collected();
    usage_.reasoning_tokens += CountReasoning(SectionsOf(answer, *model_.tokenizer));
  }
}

std::optional<ApiError> ApiAnswer::error() const {
  for (const AnswerCollector& choice : choices_) {
    if (choice.collected().error) return ToApiError(*choice.collected().error);
  }
  return std::nullopt;
}

}  // namespace fathom
