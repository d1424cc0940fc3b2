// DiskTier: blocks on disk, found again after a restart.
//
// One file per block (block_directory.h: where; block_file.h: its content), written under another
// name and renamed, so that a file is either complete or missing. Its content is checked when it is
// read. Processes may share a directory: a file that another process deleted is a miss, a file that
// another has written, or is writing, is not written again, and each keeps to max_bytes counting
// all files, whoever wrote them, at the latest when it has written an eighth of them itself.
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

// The identity of the blocks of a file: caches with another identity are never used.
struct DiskTierIdentity {
  BlockKey fingerprint;  // hash of the checkpoint, the format of the rows and the order of the sums
  std::int64_t history_bytes = 0;  // bytes of a block's payload
  std::int64_t window_bytes = 0;
};

struct DiskTierStats {
  std::int64_t files = 0;  // of all fingerprints
  std::int64_t bytes = 0;
  std::int64_t stored = 0;   // blocks written since the start, by this one
  std::int64_t loaded = 0;   // blocks read since the start
  std::int64_t refused = 0;  // files that were not what they should be
  std::int64_t dropped = 0;  // blocks not written: too many waited, the tier is off, no room
  bool is_on = true;         // false: the disk failed or is full; nothing is written any more
};

// Owns a thread that reads and writes; the other functions are called from one thread (the
// engine's) and do not wait for the disk unless they say so.
class DiskTier {
 public:
  // Payloads that wait to be written have at most so many bytes; what comes on top is dropped.
  static constexpr std::int64_t kMostWaitingBytes = std::int64_t{64} << 20;

  // Makes the directories, removes what an interrupted write left, lists the files there are and
  // deletes the least recently used ones beyond max_bytes: of other fingerprints too, whose files
  // are never read. `warn` is called from any of the two threads, one at a time, with what a user
  // should know; it must not call the tier. Error: the directory cannot be made, read or written.
  static Result<std::unique_ptr<DiskTier>> Open(const DiskTierOptions& options,
                                                const DiskTierIdentity& identity,
                                                std::function<void(const std::string&)> warn);
  // Writes what waits to be written. Loads that wait are given up.
  ~DiskTier();

  // True if there is a file of that name, or one is about to be written. Whether it is any good is
  // found when it is loaded.
  bool Has(const BlockKey& key, BlockKind kind) const;

  // Copies the block and writes it soon; if a file exists already, whoever wrote it, marks it as
  // used and does nothing else. `parent` and `tokens` (128) are stored with the block and verified
  // by a load. The first write that fails turns writing off: the tier still loads.
  void Store(const BlockKey& key, BlockKind kind, const BlockKey& parent,
             std::span<const Token> tokens, std::span<const std::byte> payload);

  // Deletes the file of a block, if there is one and nothing of it waits to be written. Waits for
  // the disk.
  void Discard(const BlockKey& key, BlockKind kind);

  // Reads a block into `payload`, which must stay valid until TakeFinished has reported `id`; from
  // memory, if the block waits to be written. Loads go before stores.
  void StartLoad(std::uint64_t id, const BlockKey& key, BlockKind kind, const BlockKey& parent,
                 std::span<const Token> tokens, std::span<std::byte> payload);

  struct FinishedLoad {
    std::uint64_t id = 0;
    // False: no file, or one that was refused (and is deleted); the payload may hold anything.
    bool ok = false;
  };
  // Adds the loads that have ended since the last call to `finished`.
  void TakeFinished(std::vector<FinishedLoad>& finished);
  // Returns when a load has ended that TakeFinished has not reported, or after `timeout`.
  void WaitForFinished(std::chrono::milliseconds timeout);
  // Returns when everything stored so far is in its file, or dropped.
  void Flush();

  // The blocks of this identity that Has is true of.
  std::vector<BlockFileName> Names() const;
  DiskTierStats stats() const;

 private:
  struct Impl;
  explicit DiskTier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
