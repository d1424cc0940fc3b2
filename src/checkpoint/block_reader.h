// BlockReader: reads blocks of a checkpoint's shards from disk, bypassing the mappings.
//
// Pages of a mapping are read in one fault after another, and the system decides which of them
// stay. Weights that are read while a model runs and then discarded need many concurrent reads and
// memory that the caller owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace fathom::checkpoint {

// Offsets and addresses of direct reads are multiples of this.
inline constexpr std::int64_t kReadBlockBytes = 4096;

// Any thread may call all functions at any time.
class BlockReader {
 public:
  virtual ~BlockReader() = default;
  // Tries once to read to.size() bytes at `offset` of shard `file`, and waits for the disk. Returns
  // the number of bytes read, 0 at the end of the file, or -errno.
  virtual std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) = 0;
  // Returns the path of a shard, for messages.
  virtual std::string FileName(std::size_t file) const = 0;
  // Error kInvalidData: the file has changed since it was opened.
  virtual Status CheckUnchanged(std::size_t /*file*/) { return {}; }
};

// Reads all of `to`, of which the first `n_needed` bytes must exist: blocks may end after the end
// of the file. Continues after short and interrupted reads. After an I/O error the read is tried
// three times, the later times in pieces of 128 KiB: a disk that cannot read one sector often
// refuses all of a large request. Errors: kInvalidData: the file has been truncated or has changed;
// kIo ("storage_error: FILE, offset N: ..."): the disk fails.
Status ReadBlocks(BlockReader& reader, std::size_t file, std::int64_t offset,
                  std::span<std::byte> to, std::int64_t n_needed);

}  // namespace fathom::checkpoint
