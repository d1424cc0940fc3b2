// The chat completions and completions of OpenAI. docs/spec/serving.md sections 5 to 8.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/common/api.h"

namespace fathom::api {

extern const Api kChatCompletions;
extern const Api kCompletions;

// A prompt with which its answers begin.
struct EchoedPrompt {
  std::string text;
  std::size_t n_added = 0;  // tokens before the text's own tokens
};

// ApiCall::context: the parts of the request that the response needs.
struct OpenAiContext {
  bool legacy_functions = false;                      // a chat whose client expects "function_call"
  std::set<std::string, std::less<>> custom_tools{};  // a chat's tools that take a text
  std::optional<int> logprobs{};  // best tokens to report beside each token; none: off
  std::optional<int> prompt_logprobs{};
  bool token_ids = false;
  bool names_tokens_by_id = false;
  // Only completions have the fields below.
  int n_told = 1;                      // best answers to return for each prompt
  std::vector<EchoedPrompt> echoes{};  // the echo of each prompt; empty: not requested
};
// Returns the context of a call of the APIs in this file.
const OpenAiContext& OpenAiContextIn(const ApiCall& call);

// Write the responses, whole and streamed (openai_format.cc).
std::unique_ptr<AnswerFormat> MakeChatFormat();
std::unique_ptr<AnswerFormat> MakeCompletionFormat();

// Shared by all APIs of OpenAI.
ApiReply OpenAiError(const ApiError& error);
JsonValue OpenAiModelCard(const ModelCard& model);
JsonValue OpenAiModelList(JsonValue cards);

}  // namespace fathom::api
