// What a command prints: results to standard output, everything else to standard error.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom::cli {

// Writes all of `text` to a file descriptor; `name` is what the error calls it.
Status WriteAll(int descriptor, std::string_view name, std::string_view text);

// Writes a file, all of it or none: under another name beside it, which becomes its own at the end.
Status WriteWholeFile(const std::filesystem::path& path, std::string_view text);
// What would keep WriteWholeFile from succeeding, as far as it can be known before.
Status CheckCanWrite(const std::filesystem::path& path);

// Standard output, at once: what has been printed is seen, nothing stays in a buffer. The error of
// a closed pipe is quiet: whoever read has seen enough, and nobody wants to be told.
Status Print(std::string_view text);
// Standard error. That it cannot be written is nobody's business.
void PrintError(std::string_view text);

// An error without a message, which only ends the program.
bool IsQuiet(const Error& error);

// The whole of a file, or of standard input if `path` is "-".
Result<std::string> ReadInput(std::string_view path);

}  // namespace fathom::cli
