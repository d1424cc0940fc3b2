// MirroredBlockReader: the shards of a checkpoint on two drives, read from both.
//
// Each read goes to the drive that will end it first, by what the drive has still to read and by
// its speed of late, so that the pieces of one expert come from both. What one drive cannot read,
// the other does.
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

namespace fathom {

// Checks that both readers give the same bytes of each shard: all of its header, and blocks that
// are spread over the rest. Errors: kInvalidData names a shard and the place that differs; those of
// ReadBlocks.
Status CheckMirror(const Checkpoint& checkpoint, BlockReader& original, BlockReader& mirror);

class MirroredBlockReader : public BlockReader {
 public:
  // One drive.
  struct Drive {
    std::unique_ptr<BlockReader> reader;
    double bytes_per_second = 0;  // as measured; 0: unknown, taken for that of the other
  };

  // `warn` gets at most one message, from any thread: one drive reads for the other.
  MirroredBlockReader(Drive original, Drive mirror, std::function<void(const std::string&)> warn);

  // An error, or the end of the file, is that of the drive which was asked last.
  std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) override;
  // Both paths.
  std::string FileName(std::size_t file) const override;
  // Checks both files: what has changed on one drive is no mirror.
  Status CheckUnchanged(std::size_t file) override;
  // Bytes that a drive has given, 0: the original.
  std::int64_t BytesFrom(std::size_t drive) const;

 private:
  static constexpr std::size_t kDrives = 2;

  struct State {
    Drive drive;               // with its speed of late
    std::int64_t waiting = 0;  // bytes that are being read
    std::int64_t read = 0;     // bytes that were read
  };

  std::size_t ChooseDrive(std::int64_t bytes) const;
  std::int64_t ReadFrom(std::size_t drive, std::size_t file, std::int64_t offset,
                        std::span<std::byte> to, std::unique_lock<std::mutex>& lock);

  std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;  // guards what changes in drives_, and has_warned_
  std::array<State, kDrives> drives_;
  bool has_warned_ = false;
};

}  // namespace fathom
