// MirroredBlockReader: the shards of a checkpoint on two drives, read from both.
//
// Each read goes to the drive that will end it first, by the bytes that the drive has still to read
// and its recent speed, so that the pieces of one expert come from both. If one drive cannot read a
// block, the other drive reads it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/safetensors.h"

namespace fathom::checkpoint {

// Checks that both readers return equal bytes for each shard: for its whole header, and for blocks
// that are spread over the rest. Errors: kInvalidData names a shard and the place that differs;
// errors of ReadBlocks.
Status CheckMirror(const Checkpoint& checkpoint, BlockReader& original, BlockReader& mirror);

class MirroredBlockReader : public BlockReader {
 public:
  // One drive.
  struct Drive {
    std::unique_ptr<BlockReader> reader;
    double bytes_per_second = 0;  // measured; 0: unknown, assumed equal to the other drive's
  };

  // `warn` gets at most one message, from any thread: one drive reads in place of the other.
  MirroredBlockReader(Drive original, Drive mirror, std::function<void(const std::string&)> warn);

  // Returns an error, or the end of the file, only from the drive that was tried last.
  std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) override;
  // Returns both paths.
  std::string FileName(std::size_t file) const override;
  // Checks both files: a file that has changed on one drive is not a mirror.
  Status CheckUnchanged(std::size_t file) override;
  // Returns the bytes that a drive has read; 0: the original.
  std::int64_t BytesFrom(std::size_t drive) const;

 private:
  static constexpr std::size_t kDrives = 2;

  struct State {
    Drive drive;               // includes its recent speed
    std::int64_t waiting = 0;  // bytes that are being read
    std::int64_t read = 0;     // bytes that were read
  };

  std::size_t ChooseDrive(std::int64_t bytes) const;
  std::int64_t ReadFrom(std::size_t drive, std::size_t file, std::int64_t offset,
                        std::span<std::byte> to, std::unique_lock<std::mutex>& lock);

  std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;  // guards the changing parts of drives_, and has_warned_
  std::array<State, kDrives> drives_;
  bool has_warned_ = false;
};

}  // namespace fathom::checkpoint
