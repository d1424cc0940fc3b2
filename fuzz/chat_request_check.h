// What must hold for any body of a request, right or wrong.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as the body of both kinds of request, and encodes the chat if it is one. Returns
// what is wrong with the outcome, or "".
std::string CheckChatRequest(std::string_view input);
// The same for the body of a message, Anthropic's kind of request.
std::string CheckMessagesRequest(std::string_view input);

}  // namespace fathom::fuzz
