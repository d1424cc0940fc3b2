#include "engine/sequence.h"

namespace fathom {

Sequence::Sequence(RequestState& owner, std::uint32_t choice_index)
    : request(owner),
      choice(choice_index),
      tokens(owner.request.prompt),
      n_prompt(static_cast<std::int64_t>(owner.request.prompt.size())),
      stops(owner.request.sampling.stop_strings) {}

SamplingParameters Sequence::Sampling() const {
  SamplingParameters parameters = request.request.sampling;
  parameters.choice += choice;
  return parameters;
}

bool AppendToken(Sequence& sequence, Token token, const TokenLogprobs& logprobs,
                 SamplerState& sampler, const TokenBytes& token_bytes) {
  RequestState& request = sequence.request;
  sampler.Accept(token);
  sequence.tokens.push_back(token);
  if (++request.stats.generated_tokens == 1) {
    request.stream->SetStats(request.stats);  // what the prompt cost is known now
  }
  StreamEvent& event = request.stream->Add();
  event.choice = sequence.choice;
  event.token = token;
  event.index = sequence.n_generated() - 1;
  if (sampler.parameters().top_logprobs) {
    event.logprobs = logprobs;
  }
  const bool ends = sampler.Ends(token);
  if (token_bytes && !ends) {
    event.text = sequence.stops.Feed(token_bytes(token));
  }
  if (sequence.stops.matched()) {
    event.finish = FinishReason::kStopString;
    event.stop_string = sequence.stops.matched();
  } else if (ends) {
    event.finish = FinishReason::kStop;
  } else if (sequence.n_generated() == request.max_tokens) {
    event.finish = FinishReason::kLength;
  }
  if (event.finish) {
    event.text += sequence.stops.Flush();
  }
  return event.finish.has_value();
}

void EndWithoutToken(Sequence& sequence, FinishReason reason, const std::optional<Error>& error) {
  RequestState& request = sequence.request;
  request.cancelled = request.cancelled || reason == FinishReason::kCancelled;
  request.failed = request.failed || reason == FinishReason::kError;
  StreamEvent& event = request.stream->Add();
  event.choice = sequence.choice;
  event.index = sequence.n_generated();
  event.text = sequence.stops.Flush();
  event.finish = reason;
  event.error = error;
}

}  // namespace fathom
