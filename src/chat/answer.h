// Answer: a whole answer of the model, divided into its parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_event.h"
#include "chat/chat.h"
#include "chat/parser.h"
#include "chat/tool_schemas.h"

namespace fathom::chat {

struct Answer {
  std::string reasoning_content{};
  std::string content{};
  std::vector<ToolCall> tool_calls{};
  // Set if a limit ended the answer in the last call: AnswerEvent::n_finished of that call.
  std::optional<std::size_t> cut_call{};
  ChatFinishReason finish_reason = ChatFinishReason::kStop;
  AnswerStats stats{};
};

// Adds an event to the answer so far. `answer` starts empty.
void AddToAnswer(const AnswerEvent& event, Answer* answer);

// Returns the arguments of a call as a JSON object, for readers that need one; for a cut call, only
// its finished parameters.
std::string FinishedArguments(const Answer& answer, std::size_t call);

// Returns the same on one line, with the digits that the model wrote; nullopt for a cut call of a
// strict tool that requires more parameters.
std::optional<std::string> CallInput(const Answer& answer, std::size_t call,
                                     const ToolSchemas& tools);

// Parses a whole text with AnswerParser. options.stream_arguments is not used (the last value of a
// repeated parameter is kept). An end-of-sentence token at the end of the text is removed; the
// model then counts as having ended the answer, whatever `end` says.
Answer ParseAnswer(std::string_view text, AnswerParserOptions options,
                   AnswerEnd end = AnswerEnd::kStop);

// Returns the message in OpenAI's form, on one line, with its finish_reason:
//   {"role": "assistant", "content": ..., "reasoning_content": ..., "tool_calls": [...],
//    "finish_reason": ...}
// Without reasoning or calls their keys are absent; content is null if there are calls and no text.
std::string AnswerToJson(const Answer& answer);

}  // namespace fathom::chat
