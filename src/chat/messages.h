// Reads a conversation in OpenAI's form. docs/spec/encoding.md section 3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "chat/media_parts.h"
#include "json/json_value.h"

namespace fathom::chat {

struct MessageOptions {
  // On: "developer" is OpenAI's name for the system role. Off: the native meaning, a user turn that
  // is dropped from a thinking history.
  bool developer_is_system = true;
  MediaPolicy media = MediaPolicy::kEarlier;
};

// `json` is a list of messages, or an object with "messages" and optionally "context", "tools",
// "tool_choice" and "response_format"; other keys are left to the server.
//
// Accepts the forms of different clients and converts them to one; trims nothing:
//   content            null, a string, or a list of parts whose texts are joined by an empty line;
//                      parts that are not text: MediaParts
//   tool content       also any object, shown as JSON; parts that are not text as
//                      [Unsupported TYPE]
//   arguments          a JSON string, an object, null or "" (no arguments), a string in a string
//   calls              of functions and of custom tools; their names and ids may be empty
//   results            also with the tool's name, as tool_name or name, instead of the call's id
//                      (named_results.h)
//   tools              functions, also without the object around them, and custom tools, which
//                      become functions with one text
//   images             of Ollama's clients, as parts after the text
//   reasoning          reasoning_content, reasoning, thinking, reasoning_details[].text, parts of
//                      type thinking, joined by an empty line
//   prefix: true       leaves an assistant turn open, like wo_eos
//   tool_choice "none" removes the tools
//
// Errors (kInvalidArgument) name the field: messages[2].role: expected ..., found "x".
Result<ChatRequest> ParseChatRequest(std::string_view json, const MessageOptions& options = {});
// Reads a conversation that ParseJson has parsed; `json` is the parsed text.
Result<ChatRequest> ReadChatRequest(const JsonValue& root, std::string_view json,
                                    const MessageOptions& options = {});

// Appends a text to the texts before it, with an empty line between them; omits an empty text.
void AppendParagraph(std::string_view text, std::string* to);

// Returns whether a part of this type contains text of the client, by the names of all APIs.
bool IsTextPart(std::string_view type);

// Returns the arguments of a call in a history, in any form that clients send: see "arguments"
// above. A value that is not an object in any of these forms is returned unchanged, and the encoder
// shows it as one parameter. `value` may be null, and must have been parsed from `source`.
std::string ReadArguments(const JsonValue* value, std::string_view source);

// Returns the function object of a tool without one: the fields of the tool but the type, with this
// name. `tool` must have been parsed from `source`.
std::string FlatFunction(const JsonValue& tool, std::string_view name, std::string_view source);

// Parses a list of tools: [{"type": "function", "function": {"name": ..., ...}}, ...]. `path` names
// the list in errors.
Result<std::vector<ToolSpec>> ParseTools(std::string_view json, std::string_view path = "tools");

}  // namespace fathom::chat
