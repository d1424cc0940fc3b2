#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/descriptor.h"

namespace fathom {
namespace {

tl::unexpected<Error> FileError(std::string_view name, std::string_view what) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", name, what, std::strerror(errno));
}

}  // namespace

Result<std::string> ReadDescriptor(int descriptor, std::string_view name) {
  std::string content;
  std::array<char, 65536> piece;
  for (;;) {
    const ssize_t n_bytes = ::read(descriptor, piece.data(), piece.size());
    if (n_bytes == 0) return content;
    if (n_bytes > 0) {
      content.append(piece.data(), static_cast<std::size_t>(n_bytes));
    } else if (errno != EINTR) {
      return FileError(name, "read");
    }
  }
}

Result<std::string> ReadFile(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return MakeError(code, "{}: cannot open: {}", path.string(), std::strerror(errno));
  }
  return ReadDescriptor(file.get(), path.string());
}

Status WriteDescriptor(int descriptor, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n_bytes = ::write(descriptor, text.data(), text.size());
    if (n_bytes >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n_bytes));
    } else if (errno == EPIPE) {
      return Unexpected({ErrorCode::kIo, ""});
    } else if (errno != EINTR) {
      return FileError(name, "write");
    }
  }
  return {};
}

Status WriteFile(const std::filesystem::path& path, std::string_view text) {
  // Beside the file, so that the rename stays inside one file system.
  const std::string temporary = fmt::format("{}.partial-{}", path.string(), ::getpid());
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return FileError(path.string(), "write");
  Status status = WriteDescriptor(file.get(), temporary, text);
  if (status && ::fsync(file.get()) != 0) status = FileError(temporary, "write");
  file.Close();
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileError(path.string(), "write");
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
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return FileError(path.string(), "write");
  return {};
}

}  // namespace fathom
