#include "engine/request_check.h"

#include <algorithm>

namespace fathom {
namespace {

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

Status CheckRequest(const Request& request, const EngineLimits& limits) {
  if (Status valid = CheckPrompt(request, limits); !valid) return valid;
  if (request.n_choices < 1 || request.n_choices > kMaxChoices) {
    return MakeError(ErrorCode::kInvalidArgument, "n: expected 1 to {}, found {}", kMaxChoices,
                     request.n_choices);
  }
  if (const int n = request.prompt_logprobs.value_or(0); n < 0 || n > kMaxTopLogprobs) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt_logprobs: expected 0 to {}, found {}",
                     kMaxTopLogprobs, n);
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return MakeError(ErrorCode::kInvalidArgument, "priority: expected {} to {}, found {}",
                     -kMaxPriority, kMaxPriority, request.priority);
  }
  if (!request.sampling.stop_strings.empty() && !limits.knows_text) {
    return MakeError(ErrorCode::kUnsupported,
                     "stop_strings: expected none, because this engine knows tokens only; found {}",
                     request.sampling.stop_strings.size());
  }
  return Validate(request.sampling, limits.vocab_size);
}

}  // namespace fathom
