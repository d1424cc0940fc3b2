// Prepares messages for rendering: merges tool results into user turns, sorts them by their calls,
// and drops old reasoning. docs/spec/encoding.md section 4, steps 1 to 4.
#pragma once

#include <cstddef>
#include <vector>

#include "chat/chat.h"

namespace fathom::chat {

// A message, with a flag that marks context.
struct Turn {
  Message message;
  bool is_context = false;
};

// The turns in rendering order. No message has the role kTool; each user message has blocks.
struct Conversation {
  std::vector<Turn> turns;
  bool drops_reasoning = false;   // drop_thinking, unless a message offers tools
  std::ptrdiff_t last_user = -1;  // index of the last user or developer turn; -1 if none
};

// Takes a request whose tools were placed by PlaceRequestTools.
Conversation PrepareConversation(const ChatRequest& request, const EncodeOptions& options);

// Moves request.tools and request.response_format to the message that shows them.
void PlaceRequestTools(ChatRequest* request);

}  // namespace fathom::chat
