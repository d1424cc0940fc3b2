// Invariants for the body of a chat in any API.
#pragma once

#include <string>

#include "api/openai/openai_requests.h"
#include "base/result.h"

namespace fathom::fuzz {

inline constexpr RequestLimits kRequestLimits = {.vocab_size = 1000, .max_context = 4096};

// Each returns what is wrong, or "". An error must be fit for a client:
std::string CheckError(const Error& error);
// The engine must accept the fields:
std::string CheckFields(const GenerationFields& fields);
// The chat must have a prompt, or a clear error:
std::string CheckChat(Result<ChatCompletionRequest> request);

}  // namespace fathom::fuzz
