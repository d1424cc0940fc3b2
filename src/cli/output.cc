#include "cli/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
