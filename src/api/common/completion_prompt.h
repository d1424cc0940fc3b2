// CompletionPrompt: a text or tokens that the model continues without the format of chats.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "base/stop_check.h"
#include "base/tensor.h"

namespace fathom::api {

// Special tokens written in a text become tokens, because the client writes the whole prompt.
using CompletionPrompt = std::variant<std::string, std::vector<Token>>;

struct CompletionOptions {
  std::optional<std::string> suffix{};  // fill the gap between the prompt and this text
  // Put the begin token before texts that do not begin with it; lists of tokens stay unchanged.
  bool add_special_tokens = true;
};

struct EncodedCompletion {
  std::vector<Token> tokens;
  std::size_t n_added = 0;  // tokens before the tokens of the client's text
};

// Errors: the prompt is certainly longer than limits.max_context, the model has no tokens for a
// suffix, or `stop` (ApiBody::is_abandoned) ended the encoding.
ApiResult<EncodedCompletion> EncodeCompletion(const CompletionPrompt& prompt,
                                              const CompletionOptions& options,
                                              const ApiModel& model, const StopFunction& stop);

}  // namespace fathom::api
