// DiskTier: blocks on disk, which survive a restart.
//
// One file per block (block_directory.h: where; block_file.h: its content), written under another
// name and renamed, so that a file is either complete or missing. Its content is checked when it is
// read. Processes may share a directory: a file that another process deleted is a miss, a file that
// another process has written, or is writing, is not written again, and each process enforces
// max_bytes over all files, whoever wrote them, at the latest after it has written an eighth of
// max_bytes itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "kv_cache/block_directory.h"
#include "kv_cache/block_key.h"

namespace fathom {

struct DiskTierOptions {
  std::filesystem::path directory;  // empty: no tier
  std::int64_t max_bytes = std::int64_t{16} << 30;
};

// Identifies the model of the blocks in a file. Files with another identity are never used.
struct DiskTierIdentity {
  BlockKey fingerprint;  // hash of the checkpoint, the format of the rows and the order of the sums
  std::int64_t history_bytes = 0;  // bytes of a block's payload
  std::int64_t window_bytes = 0;
};

struct DiskTierStats {
  std::int64_t files = 0;  // files of all fingerprints
  std::int64_t bytes = 0;
  std::int64_t stored = 0;   // blocks written since the start, by this process
  std::int64_t loaded = 0;   // blocks read since the start
  std::int64_t refused = 0;  // files with unexpected content
  std::int64_t dropped = 0;  // blocks not written: too many waited, the tier is off, no room
  bool is_on = true;         // false: the disk failed or is full; nothing more is written
};

// Owns a thread that reads and writes; the other functions are called from one thread (the
// engine's) and do not wait for the disk unless they say so.
class DiskTier {
 public:
  // The most bytes of payloads that wait to be written; blocks beyond them are dropped.
  static constexpr std::int64_t kMostWaitingBytes = std::int64_t{64} << 20;

  // Makes the directories, removes the remains of interrupted writes, lists the existing files and
  // deletes the least recently used files beyond max_bytes, including files of other fingerprints,
  // which are never read. `warn` is called from either thread, one call at a time, with messages
  // for the user; it must not call the tier. Error: the directory cannot be made, read or written.
  static Result<std::unique_ptr<DiskTier>> Open(const DiskTierOptions& options,
                                                const DiskTierIdentity& identity,
                                                std::function<void(const std::string&)> warn);
  // Writes the blocks that wait to be written. Drops the loads that wait.
  ~DiskTier();

  // True if a file of that name exists or is about to be written. Only loading it shows whether it
  // is valid.
  bool Has(const BlockKey& key, BlockKind kind) const;

  // Copies the block and writes it soon; if a file exists already, whoever wrote it, marks it as
  // used and does nothing else. `parent` and `tokens` (128) are stored with the block and verified
  // by a load. The first write that fails turns writing off: the tier still loads.
  void Store(const BlockKey& key, BlockKind kind, const BlockKey& parent,
             std::span<const Token> tokens, std::span<const std::byte> payload);

  // Deletes the file of a block, if it exists and no write of the block is waiting. Waits for the
  // disk.
  void Discard(const BlockKey& key, BlockKind kind);

  // Reads a block into `payload`, which must stay valid until TakeFinished has reported `id`. A
  // block that waits to be written is copied from memory. Loads are served before stores.
  void StartLoad(std::uint64_t id, const BlockKey& key, BlockKind kind, const BlockKey& parent,
                 std::span<const Token> tokens, std::span<std::byte> payload);

  struct FinishedLoad {
    std::uint64_t id = 0;
    // False: no file, or a refused file (which is deleted); the payload is undefined.
    bool ok = false;
  };
  // Adds the loads that have ended since the last call to `finished`.
  void TakeFinished(std::vector<FinishedLoad>& finished);
  // Waits until a load has ended that TakeFinished has not reported, at most `timeout`.
  void WaitForFinished(std::chrono::milliseconds timeout);
  // Waits until every block passed to Store so far is in its file or dropped.
  void Flush();

  // Returns the blocks of this identity for which Has is true.
  std::vector<BlockFileName> Names() const;
  DiskTierStats stats() const;

 private:
  struct Impl;
  explicit DiskTier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
