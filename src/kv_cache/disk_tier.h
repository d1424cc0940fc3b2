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
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv_cache/block_directory.h"
#include "kv_cache/block_key.h"

namespace fathom::kv_cache {

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
  // used and does nothing else. Its parent and tokens (128) are stored with the block and verified
  // by a load; its data rank and number are not read. The first write that fails turns writing off:
  // the tier still loads.
  void Store(const KeptBlock& block, std::span<const std::byte> payload);

  // Deletes the file of a block, if it exists and no write of the block is waiting. Waits for the
  // disk.
  void Discard(const BlockKey& key, BlockKind kind);

  // Reads a block into `payload`, which must stay valid until TakeFinished has reported `id`. A
  // block that waits to be written is copied from memory. Loads are served before stores.
  void StartLoad(std::uint64_t id, const KeptBlock& block, std::span<std::byte> payload);

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
  struct WaitingLoad {
    std::uint64_t id = 0;
    KeptBlock block;
    std::span<std::byte> payload;
  };
  struct WaitingStore {
    KeptBlock block;
    std::vector<std::byte> payload;
  };

  DiskTier(BlockDirectory directory, const DiskTierOptions& options,
           const DiskTierIdentity& identity, std::function<void(const std::string&)> warn)
      : directory_(std::move(directory)),
        max_bytes_(options.max_bytes),
        identity_(identity),
        warn_(std::move(warn)) {}

  BlockFileName FileName(const KeptBlock& block) const {
    return {.fingerprint = identity_.fingerprint, .key = block.key, .kind = block.kind};
  }
  void CheckBlock(const KeptBlock& block, std::int64_t payload_bytes) const;

  // Runs in the thread. `lock` holds the mutex before and after, but not while it waits for the
  // disk.
  void Run(const std::stop_token& stop);
  void RunLoad(std::unique_lock<std::mutex>& lock);
  void RunStore(std::unique_lock<std::mutex>& lock);
  bool Load(std::unique_lock<std::mutex>& lock, const WaitingLoad& load);
  void Refuse(std::unique_lock<std::mutex>& lock, const BlockFileName& name, const Error& error);
  // False: another process has stored the block. Errors: as WriteBlockFile and MakeRoom;
  // kUnavailable if the tier is off.
  Result<bool> Write(std::unique_lock<std::mutex>& lock, const WaitingStore& store);
  // Deletes files until `more_bytes` fit. Error: a file cannot be deleted.
  Status MakeRoom(std::unique_lock<std::mutex>& lock, std::int64_t more_bytes);
  // Finds the files that other processes have written and deleted, if there may be enough of them
  // to matter.
  void SeeOthers(std::unique_lock<std::mutex>& lock);
  void TurnOff(std::unique_lock<std::mutex>& lock, const Error& error);

  const BlockDirectory directory_;
  const std::int64_t max_bytes_;
  const DiskTierIdentity identity_;
  const std::function<void(const std::string&)> warn_;

  // Guarded by the mutex. Only the thread removes loads and stores, and it reads the first of each
  // without the mutex: the elements of a list do not move.
  mutable std::mutex mutex_;
  BlockFileList files_;
  std::list<WaitingLoad> loads_;
  std::list<WaitingStore> stores_;
  std::unordered_map<BlockFileName, const WaitingStore*, BlockFileNameHash> stores_by_name_;
  std::int64_t waiting_bytes_ = 0;  // bytes of the payloads of stores_
  std::vector<FinishedLoad> finished_;
  DiskTierStats stats_;  // without files and bytes
  std::condition_variable_any work_came_;
  std::condition_variable work_ended_;

  std::int64_t unseen_bytes_ = 0;  // bytes since the thread last listed the files
  std::jthread thread_;            // last: ends before the members that it uses
};

}  // namespace fathom::kv_cache
