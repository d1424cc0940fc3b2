#include "checkpoint/block_reader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace fathom::checkpoint {
namespace {

constexpr int kTries = 3;
constexpr std::int64_t kSmallPiece = std::int64_t{128} << 10;

}  // namespace

Status ReadBlocks(BlockReader& reader, std::size_t file, std::int64_t offset,
                  std::span<std::byte> to, std::int64_t n_needed) {
  std::int64_t done = 0;
  std::int64_t piece = std::ssize(to);
  int n_failed = 0;  // failed attempts at this place
  while (done < n_needed) {
    const std::int64_t wanted = std::min(piece, std::ssize(to) - done);
    const std::int64_t n =
        reader.Read(file, offset + done,
                    to.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(wanted)));
    if (n > 0) {
      done += n;
      n_failed = 0;
    } else if (n == 0) {
      return MakeError(ErrorCode::kInvalidData,
                       "{}: shard truncated: expected bytes {} to {}, found the end at {}",
                       reader.FileName(file), offset, offset + n_needed - 1, offset + done);
    } else if (n != -EINTR) {
      if (++n_failed == kTries) {
        const auto code = static_cast<int>(-n);
        return MakeError(ErrorCode::kIo, "storage_error: {}, offset {}: {} (errno {})",
                         reader.FileName(file), offset + done,
                         std::generic_category().message(code), code);
      }
      piece = kSmallPiece;
    }
  }
  return reader.CheckUnchanged(file);
}

}  // namespace fathom::checkpoint
