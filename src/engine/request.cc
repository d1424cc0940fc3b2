#include "engine/request.h"

#include <algorithm>

#include "engine/sampling_fields.h"

namespace fathom::engine {
namespace {

Status CheckInteger(std::string_view field, std::int64_t value, std::int64_t low,
                    std::int64_t high) {
  if (value >= low && value <= high) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected {} to {}, found {}", field, low, high,
                   value);
}

// Checks a token of a list of ids.
Status CheckId(std::string_view field, Token token, std::int64_t vocab_size) {
  if (token >= 0 && token < vocab_size) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected token ids 0 to {}, found {}", field,
                   vocab_size - 1, token);
}

Status CheckLeast(std::string_view field, std::int64_t value) {
  if (value >= 0) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected at least 0, found {}", field, value);
}

Status CheckStopStrings(const std::vector<std::string>& stop_strings) {
  if (stop_strings.size() > kMaxStopStrings) {
    return MakeError(ErrorCode::kInvalidArgument, "stop_strings: expected at most {}, found {}",
                     kMaxStopStrings, stop_strings.size());
  }
  for (std::size_t i = 0; i < stop_strings.size(); ++i) {
    const std::size_t bytes = stop_strings[i].size();
    if (bytes == 0 || bytes > kMaxStopStringBytes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "stop_strings[{}]: expected 1 to {} bytes, found {}", i, kMaxStopStringBytes,
                       bytes);
    }
  }
  return {};
}

Status CheckTokens(const SamplingParameters& parameters, std::int64_t vocab_size) {
  for (const auto& [token, bias] : parameters.logit_bias) {
    if (Status valid = CheckId("logit_bias", token, vocab_size); !valid) return valid;
    if (bias != bias) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias of token {}: expected a number, found {}", token, bias);
    }
  }
  if (const auto& budget = parameters.reasoning_budget;
      budget && (budget->end < 0 || budget->end >= vocab_size)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "reasoning_budget: expected an end from 0 to {}, found {}", vocab_size - 1,
                     budget->end);
  }
  for (const Token token : parameters.stop_tokens) {
    if (Status valid = CheckId("stop_tokens", token, vocab_size); !valid) return valid;
  }
  return {};
}

Status CheckLengths(const SamplingParameters& parameters) {
  Status valid = CheckLeast("max_tokens", parameters.max_tokens.value_or(0));
  if (valid) valid = CheckLeast("min_tokens", parameters.min_tokens);
  if (!valid) return valid;
  if (parameters.max_tokens && parameters.min_tokens > *parameters.max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "min_tokens: expected at most max_tokens = {}, found {}",
                     *parameters.max_tokens, parameters.min_tokens);
  }
  return CheckLeast("reasoning_budget",
                    parameters.reasoning_budget.value_or(TokenBudget()).n_tokens);
}

Status CheckPrompt(const Request& request, const EngineLimits& limits) {
  const auto n_prompt = static_cast<std::int64_t>(request.prompt.size());
  if (n_prompt == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt: expected at least 1 token, found 0");
  }
  if (n_prompt > limits.max_context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt: expected at most {} tokens (the context), found {}",
                     limits.max_context, n_prompt);
  }
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= limits.vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "prompt: expected token ids 0 to {}, found {} at position {}",
                       limits.vocab_size - 1, request.prompt[i], i);
    }
  }
  // Counts max_tokens up to the context. A request without a limit ends where the memory ends.
  const std::int64_t asked =
      std::min(request.sampling.max_tokens.value_or(1), limits.max_context - n_prompt);
  if (n_prompt + asked > limits.most_positions) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt and max_tokens: expected at most {} tokens together, for which there "
                     "is cache memory ({} bytes), found {} and {}",
                     limits.most_positions, limits.cache_bytes, n_prompt, asked);
  }
  return {};
}

}  // namespace

Status Validate(const SamplingParameters& parameters, std::int64_t vocab_size) {
  const SamplingParameters& p = parameters;
  for (const SamplingField& field : SamplingFields()) {
    if (const Status checked = field.Check(p, vocab_size); !checked) return checked;
  }
  const Status checks[] = {
      CheckInteger("top_logprobs", p.top_logprobs.value_or(0), 0, kMaxTopLogprobs),
      CheckLengths(p),
      CheckStopStrings(p.stop_strings),
      CheckTokens(p, vocab_size),
  };
  for (const Status& check : checks) {
    if (!check) return check;
  }
  return {};
}

Status CheckRequest(const Request& request, const EngineLimits& limits) {
  Status valid = CheckPrompt(request, limits);
  if (valid) valid = CheckInteger("n", request.n_choices, 1, kMaxChoices);
  if (valid) {
    valid =
        CheckInteger("prompt_logprobs", request.prompt_logprobs.value_or(0), 0, kMaxTopLogprobs);
  }
  if (valid) valid = CheckInteger("priority", request.priority, -kMaxPriority, kMaxPriority);
  if (!valid) return valid;
  if (!request.sampling.stop_strings.empty() && !limits.knows_text) {
    return MakeError(ErrorCode::kUnsupported,
                     "stop_strings: expected none, because this engine knows tokens only; found {}",
                     request.sampling.stop_strings.size());
  }
  return Validate(request.sampling, limits.vocab_size);
}

std::string_view Name(FinishReason reason) {
  constexpr std::string_view kNames[] = {"stop", "stop_string", "length", "cancelled", "error"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace fathom::engine
