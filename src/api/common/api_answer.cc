#include "api/common/api_answer.h"

#include <algorithm>
#include <string_view>

#include "api/common/api.h"
#include "base/check.h"

namespace fathom::api {
namespace {

// The engine's errors about a constraint begin with one of these (engine/allowed_tokens.h).
constexpr std::string_view kConstraintErrors[] = {"constraint_too_complex",
                                                  "constraint_unsatisfiable"};

}  // namespace

ApiAnswer::ApiAnswer(const ApiCall& call, const ApiModel& model, std::int64_t created,
                     const RandomBits& random_bits)
    : call_(call),
      model_(model),
      random_bits_(random_bits),
      head_{.id = MakeId(call.api->answer_id, random_bits),
            .created = created,
            .model = call.model,
            .fingerprint = model.fingerprint},
      started_(call.requests.size(), false),
      prompt_logprobs_(call.requests.size()) {
  for (const Request& request : call.requests) {
    for (int i = 0; i < request.n_choices; ++i) {
      choices_.emplace_back(call.answers, random_bits);
      sections_.emplace_back(*model.tokenizer);
    }
  }
}

std::size_t ApiAnswer::FirstChoice(std::size_t request) const {
  // All requests of a call have the same number of choices.
  return request * static_cast<std::size_t>(call_.requests[request].n_choices);
}

void ApiAnswer::Start(std::size_t request, const RequestStats& stats) {
  if (started_[request]) return;
  started_[request] = true;
  usage_.prompt_tokens += stats.prompt_tokens;
  usage_.cached_tokens += stats.cached_tokens;
  prompt_logprobs_[request] = stats.prompt_logprobs;
}

std::span<const TokenLogprobs> ApiAnswer::prompt_logprobs(std::size_t request) const {
  const auto& logprobs = prompt_logprobs_[request];
  return logprobs == nullptr ? std::span<const TokenLogprobs>() : *logprobs;
}

std::span<const AnswerCollector> ApiAnswer::RequestChoices(std::size_t request) const {
  return choices().subspan(FirstChoice(request),
                           static_cast<std::size_t>(call_.requests[request].n_choices));
}

AnswerPiece ApiAnswer::Add(std::size_t request, const StreamEvent& event) {
  Check(event.choice < static_cast<std::uint32_t>(call_.requests[request].n_choices),
        "an event of a choice that was not asked for");
  const std::size_t choice = FirstChoice(request) + event.choice;
  AnswerPiece piece = {.choice = choice, .event = event, .events = choices_[choice].Add(event)};
  sections_[choice].Advance(choices_[choice].collected());
  return piece;
}

void ApiAnswer::End(std::size_t request, const RequestStats& stats) {
  Start(request, stats);
  usage_.drafted_tokens += stats.drafted_tokens;
  usage_.accepted_tokens += stats.accepted_tokens;
  times_ = {.queue_seconds = std::max(times_.queue_seconds, stats.queue_seconds),
            .prefill_seconds = std::max(times_.prefill_seconds, stats.prefill_seconds),
            .decode_seconds = std::max(times_.decode_seconds, stats.decode_seconds)};
}

bool ApiAnswer::WantsNoMore(std::size_t request) const {
  const std::span<const AnswerCollector> choices = RequestChoices(request);
  const auto is_finished = [](const AnswerCollector& choice) { return choice.finished(); };
  const auto wants_no_more = [](const AnswerCollector& choice) { return choice.wants_no_more(); };
  return std::all_of(choices.begin(), choices.end(), is_finished) &&
         std::any_of(choices.begin(), choices.end(), wants_no_more);
}

std::int64_t ApiAnswer::n_prompt() const {
  std::int64_t n_tokens = 0;
  for (const Request& request : call_.requests) n_tokens += std::ssize(request.prompt);
  return n_tokens;
}

// Counts tokens here, because the engine may have continued after the end of an answer.
Usage ApiAnswer::usage() const {
  Usage usage = usage_;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += static_cast<std::int64_t>(choices_[i].collected().tokens.size());
    usage.reasoning_tokens += sections_[i].n_reasoning();
  }
  return usage;
}

// The engine ends an answer with reason kLength at max_tokens, or when the context is full.
bool ApiAnswer::IsCutByContext(std::size_t choice) const {
  const CollectedAnswer& collected = choices_[choice].collected();
  if (collected.finish != FinishReason::kLength) return false;
  const std::optional<std::int64_t> most = call_.requests.front().sampling.max_tokens;
  return !most || std::ssize(collected.tokens) < *most;
}

std::optional<ApiError> ApiAnswer::error() const {
  for (const AnswerCollector& choice : choices_) {
    if (!choice.collected().error) continue;
    Error error = *choice.collected().error;
    // The request's own data passed the checks when it was submitted: these errors are the model's.
    if (error.code == ErrorCode::kInvalidData) error.code = ErrorCode::kIo;
    ApiError told = ToApiError(error);
    for (const std::string_view name : kConstraintErrors) {
      if (!std::string_view(error.message).starts_with(name)) continue;
      told.param.clear();
      told.code = name;
    }
    return told;
  }
  return std::nullopt;
}

}  // namespace fathom::api
