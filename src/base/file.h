// Reads and writes whole files as text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom {

// The most bytes of a file, by its content.
inline constexpr std::size_t kMostSettingsBytes = std::size_t{16} << 20;  // configurations, keys
inline constexpr std::size_t kMostTableBytes = std::size_t{512} << 20;    // vocabularies, indexes
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;       // prompts, conversations
inline constexpr std::size_t kMostBatchBytes = std::size_t{16} << 30;     // requests, results

// The kinds of files that a caller accepts. A device is refused: it may have no end.
enum class FileKind {
  kRegular,
  kRegularOrPipe,  // for names from users: a shell's <(command) is a pipe
};

// Opens a file for reading. Never blocks forever, whatever is at the path: a named pipe must be
// written to within 5 seconds. Errors: kNotFound if there is no such file, kInvalidData for another
// kind of file, kIo otherwise.
Result<Descriptor> OpenToRead(const std::filesystem::path& path, FileKind kind);

// Reads a whole file. Errors: see OpenToRead; kInvalidData: it has more than most_bytes.
Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t most_bytes,
                             FileKind kind = FileKind::kRegular);
// Reads an open file or pipe to its end; `name` identifies it in errors.
Result<std::string> ReadDescriptor(int descriptor, std::string_view name, std::size_t most_bytes);

// Writes all of `text` to a file descriptor. The error of a closed pipe has no message.
Status WriteDescriptor(int descriptor, std::string_view name, std::string_view text);
// Writes the whole file or nothing: writes a temporary file beside it, which is renamed at the end.
Status WriteFile(const std::filesystem::path& path, std::string_view text);
// Error (kInvalidData): the path is something other than a regular file, for example a pipe, whose
// opening could block forever.
Status CheckRegularOrNone(const std::filesystem::path& path);
// Returns the error that WriteFile would return, as far as it can be known before writing.
Status CheckCanWrite(const std::filesystem::path& path);

}  // namespace fathom
