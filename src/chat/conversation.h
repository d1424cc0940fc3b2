// What happens to the messages before they are rendered: results of tools join user turns, stand in
// the order of their calls, and old reasoning goes. docs/spec/encoding.md section 4, steps 1 to 4.
#pragma once

#include <cstddef>
#include <vector>

#include "chat/chat.h"

namespace fathom {

// A message and whether it is only context.
struct Turn {
  Message message;
  bool is_context = false;
};

// The turns in the order in which they are rendered. No message has the role kTool; each user
// message has blocks.
struct Conversation {
  std::vector<Turn> turns;
  bool drops_reasoning = false;   // drop_thinking, unless a message offers tools
  std::ptrdiff_t last_user = -1;  // index of the last user or developer turn; -1 if none
};

// Takes a request whose request-level tools have been placed.
Conversation PrepareConversation(const ChatRequest& request, const EncodeOptions& options);

// Moves request.tools and request.response_format onto the message that shows them.
void PlaceRequestTools(ChatRequest* request);

}  // namespace fathom
