// What a command prints: results to standard output, everything else to standard error.
#ifndef FATHOM_CLI_OUTPUT_H_
#define FATHOM_CLI_OUTPUT_H_

#include <string_view>

#include "base/result.h"

namespace fathom::cli {

// Writes all of `text` to the file descriptor at once: what has been written is seen, nothing is
// kept in a buffer that a later error could lose. The error of a closed pipe has an empty message:
// whoever read has seen enough, and nobody wants to be told (see IsQuiet).
Status WriteAll(int descriptor, std::string_view text);

// Standard output.
Status Print(std::string_view text);
// Standard error. That it cannot be written is nobody's business.
void PrintError(std::string_view text);

bool IsQuiet(const Error& error);

// The whole of a file, or of standard input if `path` is "-".
Result<std::string> ReadInput(std::string_view path);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_OUTPUT_H_
