// What all APIs of chats share: the chat that a body is read into, and the call that it becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "api/common/generation_fields.h"
#include "base/result.h"
#include "base/tensor.h"
#include "chat/chat.h"

namespace fathom {

// Whether the model may, must or must not call a tool.
struct ToolChoice {
  enum class Kind {
    kAuto,
    kNone,      // there are no tools then
    kRequired,  // at least one call, of any tool or of those in `allowed`
    kNamed,     // at least one call, of `name`
  };
  Kind kind = Kind::kAuto;
  std::string name{};                  // kNamed
  std::vector<std::string> allowed{};  // kRequired; empty: all tools
};

// A chat of any API: those of other APIs are read into the same value.
struct ChatCompletionRequest {
  GenerationFields generation;
  ChatRequest chat;  // at least one message; no tools if tool_choice is none
  // Whether to think, and how hard. The first of these that says something decides:
  // thinking.type, enable_thinking, chat_template_kwargs.{thinking, enable_thinking}; then the
  // effort, where "none" is not to think; then the default.
  EncodeOptions encoding;
  // The first tool whose schema has to be kept, as the path of its "strict" in the body; may be
  // empty.
  std::string strict_field{};
  ToolChoice tool_choice;           // whether there is such a tool is not checked here
  bool parallel_tool_calls = true;  // false: the answer has at most one call
  bool include_reasoning = true;    // false: there is reasoning, and the client does not want it
  bool stop_in_reasoning = false;   // stop strings end the reasoning as well
};

// The defaults, and no chat yet.
ChatCompletionRequest DefaultChat(const RequestDefaults& defaults);

// The call of a chat that was read, or the error of reading it.
ApiResult<ApiCall> PrepareChat(const Api& api, Result<ChatCompletionRequest> request,
                               const ApiModel& model);

// The length of the prompt that a chat becomes, in tokens; it may be longer than
// limits.max_context.
ApiResult<std::int64_t> CountPromptTokens(const Api& api, Result<ChatCompletionRequest> request,
                                          const ApiModel& model);

// A call without requests yet.
ApiCall StartCall(const Api& api, const GenerationFields& fields, const ApiModel& model);

// Adds a prompt. Errors: it is empty or longer than limits.max_context, or a default value of the
// sampling is wrong.
std::optional<ApiError> AddRequest(std::vector<Token> tokens, const GenerationFields& fields,
                                   const ApiModel& model, ApiCall* call);

}  // namespace fathom
