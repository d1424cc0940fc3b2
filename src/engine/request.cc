#include "engine/request.h"

#include "engine/sampling_fields.h"

namespace fathom {
namespace {

Status CheckInteger(std::string_view field, std::int64_t value, std::int64_t low,
                    std::int64_t high) {
  if (value >= low && value <= high) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected {} to {}, found {}", field, low, high,
                   value);
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
    if (token < 0 || token >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias: expected token ids 0 to {}, found {}", vocab_size - 1, token);
    }
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
    if (token < 0 || token >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "stop_tokens: expected token ids 0 to {}, found {}", vocab_size - 1, token);
    }
  }
  return {};
}

Status CheckLengths(const SamplingParameters& parameters) {
  if (parameters.max_tokens && *parameters.max_tokens < 0) {
    return MakeError(ErrorCode::kInvalidArgument, "max_tokens: expected at least 0, found {}",
                     *parameters.max_tokens);
  }
  if (parameters.min_tokens < 0) {
    return MakeError(ErrorCode::kInvalidArgument, "min_tokens: expected at least 0, found {}",
                     parameters.min_tokens);
  }
  if (parameters.max_tokens && parameters.min_tokens > *parameters.max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "min_tokens: expected at most max_tokens = {}, found {}",
                     *parameters.max_tokens, parameters.min_tokens);
  }
  const std::optional<TokenBudget>& budget = parameters.reasoning_budget;
  if (budget && budget->n_tokens < 0) {
    return MakeError(ErrorCode::kInvalidArgument, "reasoning_budget: expected at least 0, found {}",
                     budget->n_tokens);
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

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace fathom
