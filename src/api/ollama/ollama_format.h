// Writes answers in Ollama's format: one object for a whole answer, or one per line for a stream.
#pragma once

#include <memory>

#include "api/common/answer_format.h"

namespace fathom {

// Returns the format of messages, for POST /api/chat.
std::unique_ptr<AnswerFormat> MakeOllamaChatFormat();
// Returns the format of texts, for POST /api/generate.
std::unique_ptr<AnswerFormat> MakeOllamaGenerateFormat();

}  // namespace fathom
