// DiskTier: blocks on disk, found again after a restart.
//
// One file per block, DIR/FINGERPRINT/KK/KEY.history or .window, written under another name and
// renamed, so that a file is either whole or not there. What is in it is checked when it is read.
#ifndef FATHOM_KV_CACHE_DISK_TIER_H_
#define FATHOM_KV_CACHE_DISK_TIER_H_

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
#include "kv_cache/block_key.h"

namespace fathom {

struct DiskTierOptions {
  std::filesystem::path directory;  // empty: no tier
  std::int64_t max_bytes = std::int64_t{16} << 30;
};

// What the blocks of a file belong to: caches of another one are never used.
struct DiskTierIdentity {
  BlockKey fingerprint;  // of the checkpoint, the format of the rows and the order of the sums
  std::int64_t history_bytes = 0;  // of a block's payload
  std::int64_t window_bytes = 0;
};

struct DiskTierStats {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t stored = 0;   // blocks written since the start
  std::int64_t loaded = 0;   // blocks read since the start
  std::int64_t refused = 0;  // files that were not what they should be
  std::int64_t dropped = 0;  // blocks not written because too many waited
  bool is_on = true;         // false: the disk failed or is full; nothing is written any more
};

// Owns a thread that reads and writes; the other functions are called from one thread (the
// engine's) and do not wait for the disk unless they say so.
class DiskTier {
 public:
  // Makes the directories, removes what an interrupted write left, lists the files there are and
  // deletes the least recently used ones beyond max_bytes. `warn` is called from any of the two
  // threads with what a user should know. Error: the directory cannot be made or written.
  static Result<std::unique_ptr<DiskTier>> Open(const DiskTierOptions& options,
                                                const DiskTierIdentity& identity,
                                                std::function<void(const std::string&)> warn);
  // Writes what waits to be written.
  ~DiskTier();

  // True if there is a file of that name, or one is about to be written. Whether it is any good is
  // found when it is loaded.
  bool Has(const BlockKey& key, BlockKind kind) const;

  // Copies the block and writes it soon; does nothing if there is a file already. `parent` and
  // `tokens` (128) are kept with it and must be found again by a load.
  void Store(const BlockKey& key, BlockKind kind, const BlockKey& parent,
             std::span<const Token> tokens, std::span<const std::byte> payload);

  // Reads a block into `payload`, which must stay there until TakeFinished has told of `id`.
  void StartLoad(std::uint64_t id, const BlockKey& key, BlockKind kind, const BlockKey& parent,
                 std::span<const Token> tokens, std::span<std::byte> payload);

  struct FinishedLoad {
    std::uint64_t id = 0;
    bool ok = false;  // false: no file, or one that was refused (and is deleted)
  };
  // Adds the loads that have ended since the last call to `finished`.
  void TakeFinished(std::vector<FinishedLoad>& finished);
  // Returns when a load has ended that TakeFinished has not told of, or after `timeout`.
  void WaitForFinished(std::chrono::milliseconds timeout);
  // Returns when everything stored so far is on the disk.
  void Flush();

  DiskTierStats stats() const;

 private:
  struct Impl;
  explicit DiskTier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_DISK_TIER_H_
