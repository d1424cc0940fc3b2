// The body of POST /v1/chat/completions. spec/serving.md sections 5 and 8, spec/encoding.md 5.
#ifndef FATHOM_SERVER_CHAT_COMPLETION_REQUEST_H_
#define FATHOM_SERVER_CHAT_COMPLETION_REQUEST_H_

#include <string_view>

#include "base/result.h"
#include "prompt/chat.h"
#include "server/generation_fields.h"

namespace fathom {

struct ChatCompletionRequest {
  GenerationFields generation;
  ChatRequest chat;  // at least one message; no tools if tool_choice is none
  // Whether to think, and how hard. Asked of these, the first that says something decides:
  // thinking.type, enable_thinking, chat_template_kwargs.{thinking, enable_thinking}; then the
  // effort, where "none" is not to think; then the default.
  EncodeOptions encoding;
  bool parallel_tool_calls = true;  // false: the answer has at most one call
  bool include_reasoning = true;    // false: there is reasoning, and the client does not want it
};

// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseChatCompletionRequest(std::string_view body,
                                                         const RequestLimits& limits,
                                                         const RequestDefaults& defaults);

}  // namespace fathom

#endif  // FATHOM_SERVER_CHAT_COMPLETION_REQUEST_H_
