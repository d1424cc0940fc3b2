// Arranges the conversation that a client sends into turns of the model's format.
// docs/spec/encoding.md section 4.
#pragma once

#include <vector>

#include "chat/chat.h"

namespace fathom::chat {

// Accepts any list of messages and takes time linear in their number.
//
// * Leading system messages become one, at the head; their texts are joined by an empty line.
// * A later system message becomes text of the user's turn at its place, between the lines
//   <system-reminder> and </system-reminder>; an empty one is removed. Its tools and its response
//   format move to the head.
// * Between two turns of the assistant, results of tools come first, and then all other messages in
//   their order, so that results follow their calls. A turn with only reasoning between a call and
//   its results counts as another message.
// * Only the last message stays open (Message::leave_open).
//
// A result stays in its place between the turns of the assistant, even if its call is missing,
// already has another result or is further back; a call may have no result. So the arrangement of a
// conversation that grows by turns begins with its earlier arrangement.
void ArrangeHistory(std::vector<Message>* messages);

}  // namespace fathom::chat
