#include "cli/terminal/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace fathom::cli {
namespace {

Result<std::string> ReadDescriptor(int descriptor, std::string_view name) {
  std::string content;
  std::array<char, 65536> piece;
  for (;;) {
    const ssize_t n_bytes = ::read(descriptor, piece.data(), piece.size());
    if (n_bytes == 0) {
      return content;
    }
    if (n_bytes > 0) {
      content.append(piece.data(), static_cast<std::size_t>(n_bytes));
    } else if (errno != EINTR) {
      return MakeError(ErrorCode::kIo, "{}: cannot read: {}", name, std::strerror(errno));
    }
  }
}

// Writes and closes.
Status WriteFile(int descriptor, const std::string& path, std::string_view text) {
  Status status = WriteAll(descriptor, path, text);
  if (status && ::fsync(descriptor) != 0) {
    status = MakeError(ErrorCode::kIo, "{}: cannot write: {}", path, std::strerror(errno));
  }
  ::close(descriptor);
  return status;
}

}  // namespace

Status WriteAll(int descriptor, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n_bytes = ::write(descriptor, text.data(), text.size());
    if (n_bytes >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n_bytes));
    } else if (errno == EPIPE) {
      return Unexpected({ErrorCode::kIo, ""});
    } else if (errno != EINTR) {
      return MakeError(ErrorCode::kIo, "{}: cannot write: {}", name, std::strerror(errno));
    }
  }
  return {};
}

Status WriteWholeFile(const std::filesystem::path& path, std::string_view text) {
  // Beside the file, so that the rename stays inside one file system.
  const std::string temporary = fmt::format("{}.partial-{}", path.string(), ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot write: {}", path.string(), std::strerror(errno));
  }
  Status status = WriteFile(descriptor, temporary, text);
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = MakeError(ErrorCode::kIo, "{}: cannot write: {}", path.string(), std::strerror(errno));
  }
  if (!status) {
    ::unlink(temporary.c_str());
  }
  return status;
}

Status CheckCanWrite(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected a file to write, found a directory",
                     path.string());
  }
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::access(parent.c_str(), W_OK | X_OK) != 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot write: {}", path.string(), std::strerror(errno));
  }
  return {};
}

Status Print(std::string_view text) { return WriteAll(STDOUT_FILENO, "standard output", text); }

void PrintError(std::string_view text) {
  const Status ignored = WriteAll(STDERR_FILENO, "standard error", text);
  static_cast<void>(ignored);
}

bool IsQuiet(const Error& error) { return error.message.empty(); }

Result<std::string> ReadInput(std::string_view path) {
  if (path == "-") {
    return ReadDescriptor(STDIN_FILENO, "standard input");
  }
  const std::string name(path);
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return MakeError(code, "{}: cannot open: {}", name, std::strerror(errno));
  }
  Result<std::string> content = ReadDescriptor(descriptor, name);
  ::close(descriptor);
  return content;
}

}  // namespace fathom::cli
