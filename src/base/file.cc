#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace fathom {
namespace {

// Writes and closes.
Status WriteAndClose(int descriptor, const std::string& path, std::string_view text) {
  Status status = WriteDescriptor(descriptor, path, text);
  if (status && ::fsync(descriptor) != 0) {
    status = MakeError(ErrorCode::kIo, "{}: cannot write: {}", path, std::strerror(errno));
  }
  ::close(descriptor);
  return status;
}

}  // namespace

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

Result<std::string> ReadFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return MakeError(code, "{}: cannot open: {}", path.string(), std::strerror(errno));
  }
  Result<std::string> content = ReadDescriptor(descriptor, path.string());
  ::close(descriptor);
  return content;
}

Status WriteDescriptor(int descriptor, std::string_view name, std::string_view text) {
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

Status WriteFile(const std::filesystem::path& path, std::string_view text) {
  // Beside the file, so that the rename stays inside one file system.
  const std::string temporary = fmt::format("{}.partial-{}", path.string(), ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot write: {}", path.string(), std::strerror(errno));
  }
  Status status = WriteAndClose(descriptor, temporary, text);
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

}  // namespace fathom
