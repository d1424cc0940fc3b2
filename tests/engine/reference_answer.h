// The expected answer to a request, computed in the simplest way: one sequence, one token after the
// other, nothing cached.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace fathom::testing {

struct ReferenceAnswer {
  std::vector<Token> tokens;
  std::vector<TokenLogprobs> logprobs;         // of each token, if asked for
  std::vector<TokenLogprobs> prompt_logprobs;  // of choice 0, if asked for
  std::string text;
  FinishReason finish = FinishReason::kLength;
};

struct ReferenceModel {
  std::function<std::vector<float>(std::span<const Token>)> logits;  // after these tokens
  std::vector<Token> eos_tokens;
  std::function<std::string_view(Token)> token_bytes;
  std::int64_t max_context = 0;
};

// For choice `choice` of the request, whose parameters have a seed.
ReferenceAnswer AnswerAlone(const ReferenceModel& model, const Request& request,
                            std::uint32_t choice);

// The first difference, in words; empty if there is none. A cancelled answer is the beginning of
// the expected one.
std::string Compare(const ReferenceAnswer& expected, const ReferenceAnswer& found);

}  // namespace fathom::testing
