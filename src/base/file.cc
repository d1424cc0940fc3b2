#include "base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace fathom {
namespace {

constexpr int kPipeSeconds = 5;  // seconds in which a named pipe must have something to read

tl::unexpected<Error> FileError(std::string_view name, std::string_view what) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", name, what, std::strerror(errno));
}

std::string_view DescribeMode(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
  }
  return "something else";
}

// Waits for the first byte, or the end, of a named pipe. A pipe without a name had a writer when it
// was created.
bool HasWriter(int pipe) {
  struct statfs system = {};
  if (::fstatfs(pipe, &system) == 0 && system.f_type == PIPEFS_MAGIC) return true;
  pollfd first = {.fd = pipe, .events = POLLIN, .revents = 0};
  return ::poll(&first, 1, 1000 * kPipeSeconds) != 0;
}

}  // namespace

Result<Descriptor> OpenToRead(const std::filesystem::path& path, FileKind kind) {
  const char* const expected =
      kind == FileKind::kRegular ? "a regular file" : "a regular file or a pipe";
  const auto is_wrong = [&](mode_t mode) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected {}, found {}", path.string(), expected,
                     DescribeMode(mode));
  };
  // Without O_NONBLOCK, opening a FIFO without a writer would block.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info = {};
  if (file.get() < 0) {
    const int error = errno;
    if (error == ENXIO && ::stat(path.c_str(), &info) == 0) return is_wrong(info.st_mode);
    std::error_code ignored;
    const std::filesystem::path target = std::filesystem::read_symlink(path, ignored);
    if (error == ENOENT && !target.empty()) {
      return MakeError(ErrorCode::kNotFound,
                       "{}: a link to {}, which does not exist: was a download interrupted?",
                       path.string(), target.string());
    }
    return MakeError(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot open: {}",
                     path.string(), std::strerror(error));
  }
  if (::fstat(file.get(), &info) != 0) return FileError(path.string(), "read its kind");
  const bool is_pipe = S_ISFIFO(info.st_mode);
  if (!S_ISREG(info.st_mode) && !(is_pipe && kind == FileKind::kRegularOrPipe)) {
    return is_wrong(info.st_mode);
  }
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return FileError(path.string(), "read");
  }
  if (is_pipe && !HasWriter(file.get())) {
    return MakeError(ErrorCode::kIo,
                     "{}: expected a pipe that is written to, found nothing in {} s", path.string(),
                     kPipeSeconds);
  }
  return file;
}

Result<std::string> ReadDescriptor(int descriptor, std::string_view name, std::size_t most_bytes) {
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
    if (content.size() > most_bytes) {
      return MakeError(ErrorCode::kInvalidData, "{}: expected at most {} bytes, found more", name,
                       most_bytes);
    }
  }
}

Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t most_bytes,
                             FileKind kind) {
  const Result<Descriptor> file = OpenToRead(path, kind);
  if (!file) return Unexpected(file.error());
  return ReadDescriptor(file->get(), path.string(), most_bytes);
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
  // In the same folder, so that the rename stays inside one file system.
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

Status CheckRegularOrNone(const std::filesystem::path& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return {};
  return MakeError(ErrorCode::kInvalidData, "{}: expected a regular file to write, found {}",
                   path.string(), DescribeMode(info.st_mode));
}

Status CheckCanWrite(const std::filesystem::path& path) {
  if (Status regular = CheckRegularOrNone(path); !regular) return regular;
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return FileError(path.string(), "write");
  return {};
}

}  // namespace fathom
