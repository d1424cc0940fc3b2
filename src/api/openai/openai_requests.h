// The bodies of POST /v1/chat/completions and POST /v1/completions. docs/spec/serving.md sections 5
// and 8, docs/spec/encoding.md 5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/common/chat_call.h"
#include "api/common/completion_prompt.h"
#include "api/common/generation_fields.h"
#include "base/result.h"

namespace fathom::api {

// Contains texts or tokens that the model continues.
struct CompletionRequest {
  GenerationFields generation;
  std::vector<CompletionPrompt> prompts;  // at least one
  // Put the begin token before texts that do not begin with it; lists of tokens stay unchanged.
  bool add_special_tokens = true;
  bool echo = false;                  // the answers begin with their prompts
  int n_told = 1;                     // best answers to return for each prompt, of n_choices
  std::optional<std::string> suffix;  // fill the gap between each prompt and this text
};

// Errors of both functions name the field: kInvalidArgument if it is wrong, kUnsupported if this
// build cannot do it.
Result<ChatCompletionRequest> ParseChatCompletionRequest(const ApiBody& body,
                                                         const RequestLimits& limits,
                                                         const RequestDefaults& defaults);
Result<CompletionRequest> ParseCompletionRequest(const ApiBody& body, const RequestLimits& limits,
                                                 const RequestDefaults& defaults);

}  // namespace fathom::api
