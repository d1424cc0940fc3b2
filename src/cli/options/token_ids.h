// Reads and writes token ids in a form for people.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::cli {

// Reads "0 17,42": ids separated by commas or blanks (also newlines), from an argument or a file.
// An `argument` that consists only of digits, signs and separators is the ids; any other is the
// name of a file that contains them, and "-" is standard input. Errors: no ids, text that is not an
// id (the message names the place), an id outside [0, vocab_size).
Result<std::vector<Token>> ReadTokenIds(std::string_view argument, std::int64_t vocab_size);

}  // namespace fathom::cli
