// The common part of all chat APIs: the chat into which a body is parsed, and its call.
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

namespace fathom::api {

// Decides whether the model may, must or must not call a tool.
struct ToolChoice {
  enum class Kind {
    kAuto,
    kNone,      // the chat then has no tools
    kRequired,  // at least one call
    kNamed,     // at least one call, of `name`
  };
  Kind kind = Kind::kAuto;
  std::string name{};                  // kNamed
  std::vector<std::string> allowed{};  // kAuto, kRequired: only these; empty: all tools
};

// A parsed chat request. All chat APIs parse into this type.
struct ChatCompletionRequest {
  GenerationFields generation;
  ChatRequest chat;  // at least one message; no tools if tool_choice is none
  // Selects whether to think, and how hard (reasoning_fields.h).
  EncodeOptions encoding;
  ToolChoice tool_choice;           // the named tool may be missing from the chat
  bool parallel_tool_calls = true;  // false: the answer has at most one call
  // The client offers "functions", the older form of "tools", and expects "function_call".
  bool legacy_functions = false;
  bool include_reasoning = true;  // false: the client does not want the reasoning
  // The most tokens of the reasoning, which is ended there. None: no limit.
  std::optional<std::int64_t> reasoning_budget{};
  bool stop_in_reasoning = false;  // stop strings also end the reasoning
};

// Returns the defaults, without a chat.
ChatCompletionRequest DefaultChat(const RequestDefaults& defaults);

// Converts a parsed chat, or the error of parsing it, to a call. `stop`: ApiBody::is_abandoned.
ApiResult<ApiCall> PrepareChat(const Api& api, Result<ChatCompletionRequest> request,
                               const ApiModel& model, const StopFunction& stop);

// Returns the length of the chat's prompt in tokens; the prompt may be longer than
// limits.max_context. `stop`: ApiBody::is_abandoned.
ApiResult<std::int64_t> CountPromptTokens(Result<ChatCompletionRequest> request,
                                          const ApiModel& model, const StopFunction& stop);

// Returns a call without requests.
ApiCall StartCall(const Api& api, const GenerationFields& fields, const ApiModel& model);

// Compiles the constraint of the answers for all requests of the call. Call it after AddRequest, so
// that no constraint is compiled for a prompt that is too long. Errors: MakeAnswerConstraint.
// Bounded by the compiler's limits. `stop`: ApiBody::is_abandoned.
std::optional<ApiError> AddConstraint(const AnswerFrame& frame, const GenerationFields& fields,
                                      const ApiModel& model, const StopFunction& stop,
                                      ApiCall* call);

// Adds a prompt. Errors: the prompt is empty or longer than limits.max_context, or a default of the
// sampling is out of range.
std::optional<ApiError> AddRequest(std::vector<Token> tokens, const GenerationFields& fields,
                                   const ApiModel& model, ApiCall* call);

}  // namespace fathom::api
