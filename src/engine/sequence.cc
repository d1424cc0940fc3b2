#include "engine/sequence.h"

#include <algorithm>

namespace fathom::engine {

Sequence::Sequence(RequestState& owner, std::uint32_t choice_index)
    : request(owner),
      choice(choice_index),
      tokens(owner.request.prompt),
      n_prompt(static_cast<std::int64_t>(owner.request.prompt.size())),
      stops(owner.request.sampling.stop_strings),
      stop_stretch(owner.request.sampling.stop_strings_from ? StopStretch::kBefore
                                                            : StopStretch::kInside) {}

std::int64_t Sequence::FirstUnscored() const {
  const bool scores = choice == 0 && request.prompt_logprobs != nullptr;
  return scores ? std::ssize(*request.prompt_logprobs) : n_prompt - 1;
}

SamplingParameters Sequence::Sampling() const {
  SamplingParameters parameters = request.request.sampling;
  parameters.choice += choice;
  return parameters;
}

namespace {

// Appends the text that is certain after this token. Stop strings are not searched in the tokens
// that delimit their part of the answer.
void AddText(Sequence& sequence, Token token, std::string_view bytes, std::string* text) {
  using Stretch = Sequence::StopStretch;
  const SamplingParameters& parameters = sequence.request.request.sampling;
  if (sequence.stop_stretch == Stretch::kInside && token == parameters.stop_strings_until) {
    text->append(sequence.stops.Flush());
    sequence.stop_stretch = Stretch::kBehind;
  }
  text->append(sequence.stop_stretch == Stretch::kInside ? sequence.stops.Feed(bytes) : bytes);
  if (sequence.stop_stretch == Stretch::kBefore && token == parameters.stop_strings_from) {
    sequence.stop_stretch = Stretch::kInside;
  }
}

}  // namespace

bool AppendToken(Sequence& sequence, Token token, const TokenLogprobs& logprobs,
                 SamplerState& sampler, const TokenBytes& token_bytes) {
  RequestState& request = sequence.request;
  sampler.Accept(token);
  sequence.tokens.push_back(token);
  if (++request.stats.generated_tokens == 1) {
    request.stream->SetStats(request.stats);  // the statistics of the prompt are known now
  }
  StreamEvent& event = request.stream->Add();
  event.choice = sequence.choice;
  event.token = token;
  event.index = sequence.n_generated() - 1;
  if (sampler.parameters().top_logprobs) {
    event.logprobs = logprobs;
  }
  const bool ends = sampler.Ends(token);
  const std::vector<Token>& silent = sampler.parameters().silent_tokens;
  const bool has_text = !ends && std::find(silent.begin(), silent.end(), token) == silent.end();
  if (token_bytes && has_text) {
    AddText(sequence, token, token_bytes(token), &event.text);
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
  if (request.stats.generated_tokens == 0) {
    request.stream->SetStats(request.stats);
  }
  StreamEvent& event = request.stream->Add();
  event.choice = sequence.choice;
  event.index = sequence.n_generated();
  event.text = sequence.stops.Flush();
  event.finish = reason;
  event.error = error;
}

}  // namespace fathom::engine
