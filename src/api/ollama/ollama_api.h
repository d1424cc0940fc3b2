// The descriptors of Ollama's API.
#pragma once

#include <cstdint>
#include <string>

#include "api/common/api.h"
#include "json/json_value.h"

namespace fathom {

extern const Api kOllamaChat;      // POST /api/chat
extern const Api kOllamaGenerate;  // POST /api/generate

// Returns {"error": message}.
ApiReply OllamaError(const ApiError& error);

// Returns the time as Go reads it. `seconds`: since 1970, UTC.
std::string OllamaTime(std::int64_t seconds);

// Returns the details of a model; no client needs their values.
JsonValue OllamaModelDetails();

}  // namespace fathom
