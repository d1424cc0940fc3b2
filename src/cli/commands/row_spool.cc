#include "cli/commands/row_spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace fathom::cli {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

tl::unexpected<Error> SpoolError(const char* what) {
  return MakeError(ErrorCode::kIo, "temporary file: cannot {}: {}", what, std::strerror(errno));
}

}  // namespace

Result<RowSpool> RowSpool::Create(const std::filesystem::path& directory) {
  std::string name = (directory.empty() ? "." : directory) / ".fathom-rows-XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot make a temporary file there: {}",
                     directory.string(), std::strerror(errno));
  }
  ::unlink(name.c_str());
  return RowSpool(descriptor);
}

RowSpool::RowSpool(RowSpool&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RowSpool& RowSpool::operator=(RowSpool&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

RowSpool::~RowSpool() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status RowSpool::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n_bytes = ::write(descriptor_, bytes.data(), bytes.size());
    if (n_bytes >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n_bytes));
    } else if (errno != EINTR) {
      return SpoolError("write");
    }
  }
  return {};
}

Status RowSpool::Replay(const std::function<Status(std::span<const std::byte>)>& consume) {
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) {
    return SpoolError("rewind");
  }
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const ssize_t n_bytes = ::read(descriptor_, piece.data(), piece.size());
    if (n_bytes == 0) {
      return {};
    }
    if (n_bytes > 0) {
      const Status consumed = consume(std::span(piece).first(static_cast<std::size_t>(n_bytes)));
      if (!consumed) return consumed;
    } else if (errno != EINTR) {
      return SpoolError("read");
    }
  }
}

}  // namespace fathom::cli
