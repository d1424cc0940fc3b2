// Invariants for any body of a request, valid or not.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as the body of both kinds of request, and encodes the chat if it is one. Returns
// what is wrong with the outcome, or "".
std::string CheckChatRequest(std::string_view input);
// Does the same for the body of an Anthropic message.
std::string CheckMessagesRequest(std::string_view input);

}  // namespace fathom::fuzz
