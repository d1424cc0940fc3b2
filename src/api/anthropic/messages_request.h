// The body of POST /v1/messages, Anthropic's API: its fields, and the conversation in it.
// docs/spec/serving.md section 9.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/common/chat_call.h"
#include "base/result.h"
#include "chat/chat.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom {

// Parses the body, also that of POST /v1/messages/count_tokens. max_tokens may be absent; the
// temperature may go to 2; the engine's own sampling fields count beside Anthropic's. Unknown and
// informational keys (metadata, cache_control, ...) are ignored. Tools that Anthropic would run are
// dropped.
//
// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseMessagesRequest(const ApiBody& body, const RequestLimits& limits,
                                                   const RequestDefaults& defaults);

// Converts Anthropic's content blocks to the messages of a chat: reads the fields "system" and
// "messages" of the body that `reader` reads; `body` is its text.
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

// Drops what Claude Code changes in its system prompt from request to request: a prompt that
// differs at its head shares no prefix with the one before. docs/spec/serving.md section 9.
//
// Returns the text without
//   lines that begin with "x-anthropic-billing-header:", and the newlines after them;
//   markers <total_tokens>N tokens left</total_tokens>, and the newlines before them.
std::string StableSystemText(std::string_view text);

}  // namespace fathom
