// Parses answers like the official parser: an answer is either exactly in the format, or an error.
// For checks and golden tests; users get AnswerParser. docs/spec/encoding.md section 9.1.
#pragma once

#include <string_view>

#include "base/result.h"
#include "chat/answer.h"
#include "chat/chat.h"

namespace fathom::chat {

// `text` is the model's text after the prompt, with its end-of-sentence token as text:
//
//   thinking: reasoning </think>, then in both modes: content, then the end-of-sentence token or
//   \n\n<｜DSML｜tool_calls>\n, calls, </｜DSML｜tool_calls>, and (optional after calls) that token
//
// The calls have no ids. Values of parameters with string="false" are copied to the arguments
// unchecked, as in the official parser, so the arguments need not be JSON. Errors are kInvalidData.
// An answer that ends inside a block is always an error; the official parser misses some of these
// cases.
Result<Answer> ParseStrictly(std::string_view text, ThinkingMode mode);

}  // namespace fathom::chat
