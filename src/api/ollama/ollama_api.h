// The descriptors of Ollama's API.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/common/api.h"
#include "json/json_value.h"

namespace fathom::api {

extern const Api kOllamaChat;      // POST /api/chat
extern const Api kOllamaGenerate;  // POST /api/generate

// Write answers, one object for a whole answer or one per line for a stream (ollama_format.cc): as
// messages for POST /api/chat, as texts for POST /api/generate.
std::unique_ptr<AnswerFormat> MakeOllamaChatFormat();
std::unique_ptr<AnswerFormat> MakeOllamaGenerateFormat();

// Returns {"error": message}.
ApiReply OllamaError(const ApiError& error);

// Returns the time as Go reads it. `seconds`: since 1970, UTC.
std::string OllamaTime(std::int64_t seconds);

// Returns the details of a model; no client needs their values.
JsonValue OllamaModelDetails();

}  // namespace fathom::api
