// Whole files as text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

// Errors: kNotFound where there is no such file, kIo otherwise.
Result<std::string> ReadFile(const std::filesystem::path& path);
// Reads an open file or pipe to its end; `name` is what errors call it.
Result<std::string> ReadDescriptor(int descriptor, std::string_view name);

// Writes all of `text` to a file descriptor. The error of a closed pipe has no message.
Status WriteDescriptor(int descriptor, std::string_view name, std::string_view text);
// Writes a file, all of it or nothing: into a temporary file beside it, which is renamed at the
// end.
Status WriteFile(const std::filesystem::path& path, std::string_view text);
// Returns the error that WriteFile would give, as far as it can be known before writing.
Status CheckCanWrite(const std::filesystem::path& path);

}  // namespace fathom
