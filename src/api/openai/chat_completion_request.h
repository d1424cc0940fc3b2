// The body of POST /v1/chat/completions. docs/spec/serving.md sections 5 and 8,
// docs/spec/encoding.md 5.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/common/generation_fields.h"
#include "base/result.h"
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
  // Whether to think, and how hard. RequestContext of these, the first that says something decides:
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

// What every API reads a request into: the defaults, and no chat yet.
ChatCompletionRequest DefaultChat(const RequestDefaults& defaults);

// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseChatCompletionRequest(std::string_view body,
                                                         const RequestLimits& limits,
                                                         const RequestDefaults& defaults);

}  // namespace fathom
