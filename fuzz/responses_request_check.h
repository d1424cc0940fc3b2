// Invariants for any body of POST /v1/responses, valid or not.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as such a body, encodes the chat and, where the request is to be stored, sends the
// stored conversation once more. Returns what is wrong with the outcome, or "".
std::string CheckResponsesRequest(std::string_view input);

}  // namespace fathom::fuzz
