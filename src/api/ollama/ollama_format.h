// Writes answers as Ollama does: one object for a whole answer, or one a line for a stream.
#pragma once

#include <memory>

#include "api/common/answer_format.h"

namespace fathom {

// Messages, for POST /api/chat.
std::unique_ptr<AnswerFormat> MakeOllamaChatFormat();
// Texts, for POST /api/generate.
std::unique_ptr<AnswerFormat> MakeOllamaGenerateFormat();

}  // namespace fathom
