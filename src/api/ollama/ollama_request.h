// The bodies of POST /api/chat and POST /api/generate, Ollama's API. docs/spec/serving.md section
// 11.
#pragma once

#include <optional>
#include <string>

#include "api/common/api_body.h"
#include "api/common/chat_call.h"
#include "api/common/generation_fields.h"
#include "base/result.h"

namespace fathom::api {

// Parses the body of /api/chat. A chat without messages asks only whether the model exists. Errors
// name the field: kInvalidArgument if it is wrong, kUnsupported if this server cannot do it.
Result<ChatCompletionRequest> ParseOllamaChat(const ApiBody& body, const RequestLimits& limits,
                                              const RequestDefaults& defaults);

struct OllamaGenerateRequest {
  // A chat with the system text and the prompt; without messages as above.
  ChatCompletionRequest chat;
  // Set: the model continues the prompt without the format of chats.
  std::optional<std::string> raw_prompt{};
  std::optional<std::string> suffix{};  // with raw_prompt: fill the gap between both texts
};

// Parses the body of /api/generate. Errors as above.
Result<OllamaGenerateRequest> ParseOllamaGenerate(const ApiBody& body, const RequestLimits& limits,
                                                  const RequestDefaults& defaults);

// Removes ":latest", which Ollama's clients append to names.
void RemoveLatest(std::string* name);

}  // namespace fathom::api
