// Invariants for any bytes given as a JSON text.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Parses `input` and writes it again. Returns what is wrong with the outcome, or "".
std::string CheckJson(std::string_view input);

}  // namespace fathom::fuzz
