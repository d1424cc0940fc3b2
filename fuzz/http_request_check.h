// Invariants for any bytes that a client sends to the HTTP server.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as requests one behind the other, all at once and in pieces of one and of seven
// bytes, which must give the same requests. Returns what is wrong with them, or "".
std::string CheckHttpRequest(std::string_view input);

}  // namespace fathom::fuzz
