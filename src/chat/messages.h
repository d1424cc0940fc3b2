// Reads a conversation in OpenAI's form. docs/spec/encoding.md section 3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "json/json_value.h"

namespace fathom {

struct MessageOptions {
  // On: "developer" is OpenAI's name of the system role. Off: the native meaning, a user turn that
  // is dropped from a thinking history.
  bool developer_is_system = true;
};

// `json` is a list of messages, or an object with "messages" and optionally "context", "tools",
// "tool_choice" and "response_format"; other keys are left to the server.
//
// Accepts the forms of different clients and converts them to one; trims nothing:
//   content            null, a string, or a list of parts whose texts are joined by an empty line
//   tool content       also any object, shown as JSON; parts that are no text as [Unsupported TYPE]
//   arguments          a JSON string, an object, null or "" (no arguments), a string in a string
//   reasoning          reasoning_content, reasoning, reasoning_details[].text, parts of type
//   thinking prefix: true       leaves an assistant turn open, as wo_eos does tool_choice "none"
//   takes the tools away
//
// Errors (kInvalidArgument) name the field: messages[2].role: expected ..., found "x".
Result<ChatRequest> ParseChatRequest(std::string_view json, const MessageOptions& options = {});
// Reads a conversation that ParseJson has parsed; `json` is the parsed text.
Result<ChatRequest> ReadChatRequest(const JsonValue& root, std::string_view json,
                                    const MessageOptions& options = {});

// Parses a list of tools: [{"type": "function", "function": {"name": ..., ...}}, ...]. `path` names
// the list in errors.
Result<std::vector<ToolSpec>> ParseTools(std::string_view json, std::string_view path = "tools");

}  // namespace fathom
