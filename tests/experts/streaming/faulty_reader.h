// FaultyReader: reads the shards of a checkpoint, with the faults that a test asks for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "checkpoint/file_block_reader.h"
#include "experts/streaming/streaming_options.h"

namespace fathom::testing {

// One call of BlockReader::Read, and what a fault may look at.
struct ReadCall {
  std::int64_t number = 0;  // since the reader was made, from 0
  std::size_t file = 0;
  std::int64_t offset = 0;
};

// Decides about a call, on the thread that reads: a result instead of the file's (-errno, or 0 for
// the end), or kReadFile. May shorten `to`, and may wait.
using Fault = std::function<std::int64_t(const ReadCall& call, std::span<std::byte>& to)>;
inline constexpr std::int64_t kReadFile = 1;

class FaultyReader : public BlockReader {
 public:
  FaultyReader(std::unique_ptr<FileBlockReader> files, Fault fault)
      : files_(std::move(files)), fault_(std::move(fault)) {}

  std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) override {
    const std::int64_t result =
        fault_ ? fault_({.number = n_calls_++, .file = file, .offset = offset}, to) : kReadFile;
    return result == kReadFile ? files_->Read(file, offset, to) : result;
  }
  std::string FileName(std::size_t file) const override { return files_->FileName(file); }
  Status CheckUnchanged(std::size_t file) override { return files_->CheckUnchanged(file); }

 private:
  std::unique_ptr<FileBlockReader> files_;
  Fault fault_;
  std::atomic<std::int64_t> n_calls_ = 0;
};

// For StreamingOptions::open.
inline auto OpenFaulty(Fault fault) {
  return [fault = std::move(fault)](
             const Checkpoint& checkpoint) -> Result<std::unique_ptr<BlockReader>> {
    Result<std::unique_ptr<FileBlockReader>> files = FileBlockReader::Open(checkpoint, {});
    if (!files) return Unexpected(files.error());
    return std::make_unique<FaultyReader>(*std::move(files), fault);
  };
}

}  // namespace fathom::testing
