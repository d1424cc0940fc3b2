// The chat completions and completions of OpenAI. docs/spec/serving.md sections 5 to 8.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/common/api.h"

namespace fathom {

extern const Api kChatCompletions;
extern const Api kCompletions;

// A prompt that the answers to it begin with.
struct EchoedPrompt {
  std::string text;
  std::size_t n_added = 0;  // tokens in front of the text's own
};

// ApiCall::context: what the response tells.
struct OpenAiContext {
  bool legacy_functions = false;                      // a chat whose client reads "function_call"
  std::set<std::string, std::less<>> custom_tools{};  // of a chat: calls of these are of a text
  std::optional<int> logprobs{};  // and how many of the best tokens beside each; none: not told
  std::optional<int> prompt_logprobs{};
  bool token_ids = false;
  bool names_tokens_by_id = false;
  // Completions alone have the fields below.
  int n_told = 1;                      // the best answers to each prompt
  std::vector<EchoedPrompt> echoes{};  // of each prompt; empty: not asked for
};
// Returns the context of a call of this file's APIs.
const OpenAiContext& OpenAiContextIn(const ApiCall& call);

// Write the responses, whole and streamed (openai_format.cc).
std::unique_ptr<AnswerFormat> MakeChatFormat();
std::unique_ptr<AnswerFormat> MakeCompletionFormat();

// Shared by all APIs of OpenAI.
ApiReply OpenAiError(const ApiError& error);
JsonValue OpenAiModelCard(const ModelCard& model);
JsonValue OpenAiModelList(std::span<const ModelCard> models);

}  // namespace fathom
