// Converts the conversation in a body of POST /v1/messages, Anthropic's content blocks, to the
// messages of a chat. docs/spec/serving.md section 9.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/chat.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom {

// Reads the fields "system" and "messages" of the body that `reader` reads; `body` is its text.
//   system       a string or text blocks; with system messages at the start it becomes one message
//   user         tool_result blocks become tool messages, before the text, as the format has them
//   assistant    text, thinking (whatever its signature) and tool_use; the last message is
//   continued
// Texts of one message are joined by an empty line and not trimmed. Blocks that only Anthropic can
// read (redacted thinking, calls and results of its own tools) are dropped. A block that is not
// text becomes [Unsupported TYPE] inside a tool_result, and is an error elsewhere.
//
// Errors go to `reader` and name the field: messages[2].content[0].type: expected ...
std::vector<Message> ReadConversation(FieldReader& reader, std::string_view body,
                                      bool stable_system);

}  // namespace fathom
