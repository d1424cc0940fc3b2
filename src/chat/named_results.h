// Pairs results of tools that name the tool instead of the call, as Ollama's clients send them.
#pragma once

#include <vector>

#include "chat/chat.h"

namespace fathom::chat {

// Gives each result without an id, but with a tool's name, the id of the call that it answers: the
// first call of that name, in the last assistant turn with calls, that no earlier result answers. A
// call without an id gets one. A result without such a call stays unchanged. Takes time linear in
// the number of messages and calls, except for a search in a tree for each.
void PairNamedResults(std::vector<Message>* messages);

}  // namespace fathom::chat
