// Invariants for any bytes given as a grammar, a regular expression or a JSON Schema.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Each builds the grammar of `input` and walks through the automaton of its start. Returns what is
// wrong with the outcome, or "".
std::string CheckGbnf(std::string_view input);
std::string CheckRegex(std::string_view input);
std::string CheckJsonSchema(std::string_view input);

}  // namespace fathom::fuzz
