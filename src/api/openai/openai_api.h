// The chat completions and completions of OpenAI. docs/spec/serving.md sections 5 to 8.
#pragma once

#include <memory>
#include <span>

#include "api/common/api.h"

namespace fathom {

extern const Api kChatCompletions;
extern const Api kCompletions;

// ApiCall::context of a chat whose client offers "functions" and reads "function_call".
struct LegacyFunctions {};

// Write the responses, whole and streamed (openai_format.cc).
std::unique_ptr<AnswerFormat> MakeChatFormat();
std::unique_ptr<AnswerFormat> MakeCompletionFormat();

// Shared by all APIs of OpenAI.
ApiReply OpenAiError(const ApiError& error);
JsonValue OpenAiModelCard(const ModelCard& model);
JsonValue OpenAiModelList(std::span<const ModelCard> models);

}  // namespace fathom
