// A whole answer of the model, taken apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_event.h"
#include "chat/chat.h"
#include "chat/parser.h"

namespace fathom {

struct Answer {
  std::string reasoning_content{};
  std::string content{};
  std::vector<ToolCall> tool_calls{};
  ChatFinishReason finish_reason = ChatFinishReason::kStop;
  AnswerStats stats{};
};

// Adds an event to what came before. `answer` starts empty.
void AddToAnswer(const AnswerEvent& event, Answer* answer);

// Reads a whole text with AnswerParser; options.stream_arguments is not used (of a repeated
// parameter the last value counts). If the text ends with the end-of-sentence token as text, that
// is removed, and the answer ended by itself whatever `end` says.
Answer ParseAnswer(std::string_view text, AnswerParserOptions options,
                   AnswerEnd end = AnswerEnd::kStop);

// The message as OpenAI clients know it, on one line, with its finish_reason:
//   {"role": "assistant", "content": ..., "reasoning_content": ..., "tool_calls": [...],
//    "finish_reason": ...}
// Without reasoning or calls their keys are absent; content is null if there are calls and no text.
std::string AnswerToJson(const Answer& answer);

}  // namespace fathom
