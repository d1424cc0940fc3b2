// What must hold for the body of a chat, whichever API it came by.
#pragma once

#include <string>

#include "api/openai/chat_completion_request.h"
#include "base/result.h"

namespace fathom::fuzz {

inline constexpr RequestLimits kRequestLimits = {.vocab_size = 1000, .max_context = 4096};

// Each returns what is wrong, or "". Every refusal can be told to a client:
std::string CheckError(const Error& error);
// The engine takes what was accepted:
std::string CheckFields(const GenerationFields& fields);
// There is a prompt for it, or a clear error:
std::string CheckChat(Result<ChatCompletionRequest> request);

}  // namespace fathom::fuzz
