// Input and output of commands: results go to standard output, everything else to standard error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace fathom::cli {

// Writes to standard output without a buffer. A closed pipe returns a quiet error.
Status Print(std::string_view text);
// Writes to standard error; write errors are ignored.
void PrintError(std::string_view text);

// Returns true for an error without a message, which only ends the program.
inline bool IsQuiet(const Error& error) { return error.message.empty(); }

// Returns the text without the byte order mark that some editors write at its beginning.
inline std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

// Returns the content of a file or pipe without a byte order mark; if `path` is "-", standard input
// unchanged. Errors: see ReadFile.
Result<std::string> ReadInput(const std::string& path, std::size_t most_bytes = kMostTextBytes);

}  // namespace fathom::cli
