// The body of POST /v1/messages, Anthropic's API: its fields, and the conversation in it.
// docs/spec/serving.md section 9.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/common/chat_call.h"
#include "base/result.h"
#include "chat/chat.h"
#include "chat/media_parts.h"
#include "chat/offered_tools.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::api {

// Parses the body, also for POST /v1/messages/count_tokens. max_tokens may be absent; the
// temperature may go to 2; the engine's own sampling fields are accepted beside Anthropic's.
// Unknown and informational keys (metadata, cache_control, ...) are ignored. Tools that Anthropic
// would run are dropped if there are others.
//
// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseMessagesRequest(const ApiBody& body, const RequestLimits& limits,
                                                   const RequestDefaults& defaults);

// Drops the parts of Claude Code's system texts that change from request to request: two prompts
// share only the text before their first difference. docs/spec/serving.md section 9.
//
// Returns the text without
//   lines that begin with "x-anthropic-billing-header:", and the newlines after them;
//   markers <total_tokens>N tokens left</total_tokens>, and the newlines before them.
std::string StableSystemText(std::string_view text);

// Rules by which a conversation is read.
struct ConversationRules {
  bool stable_system = true;  // RequestDefaults::stable_system
  MediaPolicy media = MediaPolicy::kEarlier;
};

// Converts Anthropic's content blocks to the messages of a chat: reads the fields "system" and
// "messages" of the body that `reader` reads; `body` is its text. `tools` contains the tools of the
// request, and at the end the tools that the model may call after the messages.
//   system       a string or text blocks; with system messages at the start it becomes one message;
//                others are turns of their own
//   user         tool_result blocks become tool messages, before the text, as in the format
//   assistant    text, thinking (whatever its signature) and tool_use; the last message is
//                continued
// Texts of one message are joined by an empty line and not trimmed. The text of the last compaction
// block replaces everything before it. A reference to a tool becomes its definition
// (OfferedTools::Refer).
//
// Blocks that this model cannot read are dropped in messages of the assistant; elsewhere they
// become [Unsupported TYPE], images and other media by the rules of MediaParts, because a client
// cannot remove them from its history.
//
// Errors go to `reader` and name the field: messages[2].content[0].text: expected ...
std::vector<Message> ReadConversation(FieldReader& reader, std::string_view body,
                                      const ConversationRules& rules, OfferedTools* tools);

}  // namespace fathom::api
