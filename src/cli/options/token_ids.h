// Token ids as people write them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::cli {

// "0 17,42": ids separated by commas or blanks (also newlines), from an argument or a file. If
// `argument` consists of nothing but digits, signs and separators it is the ids, else the name of a
// file of them, "-" being standard input. Errors: no ids, text that is no id (the message names the
// place), an id outside [0, vocab_size).
Result<std::vector<Token>> ReadTokenIds(std::string_view argument, std::int64_t vocab_size);

// The ids with blanks between them.
std::string FormatTokenIds(std::span<const Token> tokens);

}  // namespace fathom::cli
