// Invariants for any bytes that a server sends as the stream of an answer.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as server-sent events, all at once and in pieces of one and of seven bytes, which
// must give the same events, and the events as an answer of each API. Returns what is wrong with
// the outcome, or "".
std::string CheckSseStream(std::string_view input);

}  // namespace fathom::fuzz
