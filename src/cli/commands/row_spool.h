// RowSpool: stores rows that belong at the end of a file while its beginning is still being
// written.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/result.h"

namespace fathom::cli {

// Owns a temporary file without a name: the system removes it when the process ends in any way. One
// thread.
class RowSpool {
 public:
  // Creates the file in `directory`; empty means the current directory.
  static Result<RowSpool> Create(const std::filesystem::path& directory) {
    std::string name = (directory.empty() ? "." : directory) / ".fathom-rows-XXXXXX";
    Descriptor descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (descriptor.get() < 0) {
      return MakeError(ErrorCode::kIo, "{}: cannot make a temporary file there: {}",
                       directory.string(), std::strerror(errno));
    }
    ::unlink(name.c_str());
    return RowSpool(std::move(descriptor));
  }

  Status Append(std::span<const std::byte> bytes) {
    return WriteDescriptor(descriptor_.get(), kName,
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  // Passes all appended bytes to `consume`, in order, in pieces.
  Status Replay(const std::function<Status(std::span<const std::byte>)>& consume) {
    constexpr std::size_t kPieceBytes = 1 << 20;
    if (::lseek(descriptor_.get(), 0, SEEK_SET) != 0) return Failure("rewind");
    std::vector<std::byte> piece(kPieceBytes);
    for (;;) {
      const ssize_t n_bytes = ::read(descriptor_.get(), piece.data(), piece.size());
      if (n_bytes == 0) return {};
      if (n_bytes > 0) {
        const Status consumed = consume(std::span(piece).first(static_cast<std::size_t>(n_bytes)));
        if (!consumed) return consumed;
      } else if (errno != EINTR) {
        return Failure("read");
      }
    }
  }

 private:
  static constexpr std::string_view kName = "temporary file";

  static tl::unexpected<Error> Failure(const char* what) {
    return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", kName, what, std::strerror(errno));
  }

  explicit RowSpool(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  Descriptor descriptor_;
};

}  // namespace fathom::cli
