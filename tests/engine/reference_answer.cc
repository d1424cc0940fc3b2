#include "tests/engine/reference_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "engine/constraint_path.h"
#include "engine/mask_pool.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"

namespace fathom::testing {
namespace {

bool SameBits(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token == b.token &&
         std::bit_cast<std::uint32_t>(a.logprob) == std::bit_cast<std::uint32_t>(b.logprob);
}

bool SameBits(const TokenLogprobs& a, const TokenLogprobs& b) {
  return SameBits(a.chosen, b.chosen) && a.rank == b.rank && a.top.size() == b.top.size() &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const TokenLogprob& x, const TokenLogprob& y) { return SameBits(x, y); });
}

// True if stop strings are searched in the text of the last token: a token `from` comes before it,
// and no token `until` in between or there.
bool IsSearched(const SamplingParameters& parameters, const std::vector<Token>& generated) {
  auto begin = generated.begin();
  if (parameters.stop_strings_from) {
    begin = std::find(generated.begin(), generated.end() - 1, *parameters.stop_strings_from);
    if (begin == generated.end() - 1) return false;
    ++begin;
  }
  return !parameters.stop_strings_until ||
         std::find(begin, generated.end(), *parameters.stop_strings_until) == generated.end();
}

// The log-probabilities of the prompt, a token behind the other.
std::vector<TokenLogprobs> ScoreAlone(const ReferenceModel& model, const Request& request) {
  const std::span<const Token> prompt = request.prompt;
  std::vector<TokenLogprobs> scores;
  for (std::size_t i = 1; request.prompt_logprobs && i < prompt.size(); ++i) {
    const Status scored =
        Sampler::Score(model.logits(prompt.first(i)), prompt[i], static_cast<std::int64_t>(i),
                       *request.prompt_logprobs, scores.emplace_back());
    Check(scored.has_value(), "logits that are numbers");
  }
  return scores;
}

// True if the scores of the prompt are as expected. A cancelled request may have fewer.
bool SameScores(const ReferenceAnswer& expected, const ReferenceAnswer& found) {
  const bool cancelled = found.finish == FinishReason::kCancelled && found.tokens.empty();
  const std::size_t n = found.prompt_logprobs.size();
  return (n == expected.prompt_logprobs.size() ||
          (cancelled && n < expected.prompt_logprobs.size())) &&
         std::equal(found.prompt_logprobs.begin(), found.prompt_logprobs.end(),
                    expected.prompt_logprobs.begin(),
                    [](const TokenLogprobs& a, const TokenLogprobs& b) { return SameBits(a, b); });
}

}  // namespace

ReferenceAnswer AnswerAlone(const ReferenceModel& model, const Request& request,
                            std::uint32_t choice) {
  SamplingParameters parameters = request.sampling;
  parameters.choice += choice;
  std::vector<Token> tokens = request.prompt;
  const auto n_prompt = std::ssize(tokens);
  const std::int64_t max_tokens =
      std::min(parameters.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()),
               model.max_context - n_prompt);
  ReferenceAnswer answer;
  if (choice == 0) answer.prompt_logprobs = ScoreAlone(model, request);
  StopStrings stops(parameters.stop_strings);
  std::optional<Sampler> sampler;
  std::optional<SamplerState> state;
  MaskPool masks(nullptr);  // without threads
  std::optional<ConstraintPath> path;
  while (std::ssize(answer.tokens) < max_tokens) {
    const std::vector<float> logits = model.logits(tokens);
    if (!sampler) {
      sampler.emplace(std::ssize(logits));
      state.emplace(std::ssize(logits));
      state->Begin(parameters, *parameters.seed, request.prompt, model.eos_tokens);
      if (parameters.constraint != nullptr) {
        state->Continue({}, &path.emplace(parameters.constraint, "", masks));
      }
    }
    TokenLogprobs logprobs;
    const Result<Token> token = sampler->Sample(logits, *state, std::ssize(tokens), logprobs);
    if (!token) {
      answer.finish = FinishReason::kError;
      break;
    }
    state->Accept(*token);
    tokens.push_back(*token);
    answer.tokens.push_back(*token);
    if (parameters.top_logprobs) {
      answer.logprobs.push_back(logprobs);
    }
    const bool ends = state->Ends(*token);
    if (model.token_bytes && !ends) {
      const std::string_view bytes = model.token_bytes(*token);
      const bool is_searched = IsSearched(parameters, answer.tokens);
      if (!is_searched) answer.text += stops.Flush();
      answer.text += is_searched ? stops.Feed(bytes) : bytes;
    }
    if (stops.matched() || ends) {
      answer.finish = stops.matched() ? FinishReason::kStopString : FinishReason::kStop;
      break;
    }
  }
  answer.text += stops.Flush();
  return answer;
}

std::string Compare(const ReferenceAnswer& expected, const ReferenceAnswer& found) {
  const bool cancelled = found.finish == FinishReason::kCancelled;
  if (!SameScores(expected, found)) return "the log-probabilities of the prompt differ";
  const std::size_t n = found.tokens.size();
  for (std::size_t i = 0; i < std::min(n, expected.tokens.size()); ++i) {
    if (found.tokens[i] != expected.tokens[i]) {
      return fmt::format("token {}: expected {}, found {}", i, expected.tokens[i], found.tokens[i]);
    }
    if (!expected.logprobs.empty() && !SameBits(expected.logprobs[i], found.logprobs.at(i))) {
      return fmt::format("logprobs of token {} differ", i);
    }
  }
  if (cancelled ? n > expected.tokens.size() : n != expected.tokens.size()) {
    return fmt::format("expected {} tokens ({}), found {} ({})", expected.tokens.size(),
                       Name(expected.finish), n, Name(found.finish));
  }
  if (cancelled) {
    return "";  // its text may end with what would have been held back
  }
  if (found.finish != expected.finish) {
    return fmt::format("finish: expected {}, found {}", Name(expected.finish), Name(found.finish));
  }
  return found.text == expected.text
             ? ""
             : fmt::format("text: expected \"{}\", found \"{}\"", expected.text, found.text);
}

}  // namespace fathom::testing
