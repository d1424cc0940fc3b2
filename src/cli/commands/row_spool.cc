#include "cli/commands/row_spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace fathom::cli {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::string_view kName = "temporary file";

tl::unexpected<Error> SpoolError(const char* what) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", kName, what, std::strerror(errno));
}

}  // namespace

Result<RowSpool> RowSpool::Create(const std::filesystem::path& directory) {
  std::string name = (directory.empty() ? "." : directory) / ".fathom-rows-XXXXXX";
  Descriptor descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (descriptor.get() < 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot make a temporary file there: {}",
                     directory.string(), std::strerror(errno));
  }
  ::unlink(name.c_str());
  return RowSpool(std::move(descriptor));
}

Status RowSpool::Append(std::span<const std::byte> bytes) {
  return WriteDescriptor(descriptor_.get(), kName,
                         {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Status RowSpool::Replay(const std::function<Status(std::span<const std::byte>)>& consume) {
  if (::lseek(descriptor_.get(), 0, SEEK_SET) != 0) return SpoolError("rewind");
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const ssize_t n_bytes = ::read(descriptor_.get(), piece.data(), piece.size());
    if (n_bytes == 0) return {};
    if (n_bytes > 0) {
      const Status consumed = consume(std::span(piece).first(static_cast<std::size_t>(n_bytes)));
      if (!consumed) return consumed;
    } else if (errno != EINTR) {
      return SpoolError("read");
    }
  }
}

}  // namespace fathom::cli
