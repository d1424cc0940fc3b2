// FileBlockReader: the shards of a checkpoint as files, read directly or through the page cache.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/safetensors.h"

namespace fathom::checkpoint {

// Owns two descriptors for each shard. A shard that is renamed or replaced stays open in its old
// state.
class FileBlockReader : public BlockReader {
 public:
  // Errors: a shard cannot be opened, or its length differs from the checkpoint's. `warn` gets at
  // most one message, from any thread: the file system refuses direct reads.
  static Result<std::unique_ptr<FileBlockReader>> Open(
      const Checkpoint& checkpoint, std::function<void(const std::string&)> warn);
  // Opens files with the same names in another directory.
  static Result<std::unique_ptr<FileBlockReader>> OpenIn(
      const std::filesystem::path& directory, const Checkpoint& checkpoint,
      std::function<void(const std::string&)> warn);

  // Sets whether later reads are direct, where the file system can read so. All other reads go
  // through the page cache, and drop its pages afterwards.
  void SetDirect(bool direct) { direct_ = direct; }
  // Returns true if reads are direct: requested and not refused.
  bool IsDirect() const { return direct_ && !refused_; }
  // Drops pages of the page cache that no process maps.
  void DropPages(std::size_t file, std::int64_t offset, std::int64_t bytes) const;
  // Returns true if a page of these bytes is in the page cache, or if the system does not report
  // it: reading the bytes may be faster than the disk. Costs microseconds. `offset` must be a
  // multiple of kReadBlockBytes.
  bool MayHavePages(std::size_t file, std::int64_t offset, std::int64_t bytes) const;

  std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) override;
  std::string FileName(std::size_t file) const override { return files_[file].path.string(); }
  // Compares the size and the time of the last change.
  Status CheckUnchanged(std::size_t file) override;

 private:
  struct File {
    std::filesystem::path path;
    Descriptor buffered;
    Descriptor direct;  // none: direct reads are refused
    std::int64_t bytes = 0;
    std::int64_t changed_seconds = 0;
    std::int64_t changed_nanoseconds = 0;
  };

  explicit FileBlockReader(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  static Result<File> OpenFile(const std::filesystem::path& path, std::int64_t bytes);
  void Refuse(const std::filesystem::path& path);

  std::vector<File> files_;
  std::function<void(const std::string&)> warn_;
  std::atomic<bool> direct_ = true;
  std::atomic<bool> refused_ = false;
};

}  // namespace fathom::checkpoint
