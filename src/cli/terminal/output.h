// Input and output of commands: results go to standard output, everything else to standard error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace fathom::cli {

// Writes to standard output without a buffer. The error of a closed pipe is quiet.
Status Print(std::string_view text);
// Writes to standard error; write errors are ignored.
void PrintError(std::string_view text);

// An error without a message, which only ends the program.
inline bool IsQuiet(const Error& error) { return error.message.empty(); }

// The whole of a file or pipe, or of standard input if `path` is "-". Errors: those of ReadFile.
Result<std::string> ReadInput(const std::string& path, std::size_t most_bytes = kMostTextBytes);

}  // namespace fathom::cli
