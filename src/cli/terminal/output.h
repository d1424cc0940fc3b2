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

// Returns the text without the mark that some editors put in front.
inline std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

// The whole of a file or pipe, without a byte order mark, or of standard input, as it is, if `path`
// is "-". Errors: those of ReadFile.
Result<std::string> ReadInput(const std::string& path, std::size_t most_bytes = kMostTextBytes);

}  // namespace fathom::cli
