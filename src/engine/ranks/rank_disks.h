// Blocks on the disks of several ranks: each keeps the part of a block that its layers have, and
// of data ranks the one that computed it.
//
// The first rank decides what is stored and loaded, by what it has itself (of other data ranks by
// what they had when they began, and have been told to store); the others of the block's data rank
// do the same with their parts. A block that one of them cannot load is loaded on none, and its
// parts are deleted, so that it is stored anew by all when it has been computed again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/rank_message.h"
#include "kv_cache/disk_blocks.h"
#include "kv_cache/sequence_cache.h"

namespace fathom {

// What the first rank tells of disks, behind RankCall::kDisk.
enum class DiskCall : std::int64_t {
  kOpen,      // directory, its bytes, the root of the keys
  kStore,     // block
  kLoad,      // its number, block
  kFinished,  // nothing: everyone says which loads have ended
  kDiscard,   // data rank, key, kind
  kFlush,     // nothing: everyone waits for all
};

// The first rank's, for all. After a failure nothing is stored, and no load succeeds.
class LeaderDisks : public BlockStore {
 public:
  // Tells the other ranks what is in the message. Afterwards they are where the call says.
  using Tell = std::function<Status(const std::function<void(RankMessage&)>& add)>;
  // The run cannot go on: an operation among the ranks has failed.
  using OnFailure = std::function<void(const Error&)>;

  // Opens the disks of all ranks. Cache and communicator outlive it. Errors: of DiskBlocks::Open
  // here; a rank is gone, for example because its directory cannot be used.
  static Result<std::unique_ptr<LeaderDisks>> Open(SequenceCache& cache,
                                                   const DiskTierOptions& options,
                                                   const BlockKey& root,
                                                   std::function<void(const std::string&)> warn,
                                                   Communicator& all, Tell tell,
                                                   OnFailure on_failure);

  bool Has(int data_rank, const BlockKey& key, BlockKind kind) const override;
  void Store(const KeptBlock& stored) override;
  void StartLoad(std::uint64_t id, const KeptBlock& stored) override;
  void TakeFinished(std::vector<DiskTier::FinishedLoad>& finished) override;
  void WaitForFinished(std::chrono::milliseconds timeout) override;
  void Flush() override;

 private:
  struct Loading {
    int data_rank = 0;
    BlockKey key;
    BlockKind kind = BlockKind::kHistory;
    int n_ended = 0;     // of the ranks of the data rank
    bool ended = false;  // here, if it is one of them
    bool ok = true;      // on all that have
  };

  using Names = std::unordered_set<BlockFileName, BlockFileNameHash>;

  LeaderDisks(std::unique_ptr<DiskBlocks> mine, Communicator& all, Tell tell, OnFailure on_failure,
              std::vector<Names> known)
      : mine_(std::move(mine)),
        all_(all),
        tell_(std::move(tell)),
        on_failure_(std::move(on_failure)),
        known_(std::move(known)) {}
  bool TellAll(DiskCall call, const std::function<void(RankMessage&)>& add = {});
  bool Succeeded(const Status& status);
  void Discard(const Loading& load);

  std::unique_ptr<DiskBlocks> mine_;
  Communicator& all_;
  const Tell tell_;
  const OnFailure on_failure_;
  std::vector<Names> known_;  // by data rank, of the others; without fingerprints
  std::unordered_map<std::uint64_t, Loading> loads_;  // by their number
  std::vector<DiskTier::FinishedLoad> mine_finished_;
  bool failed_ = false;
};

// Another rank's part.
class FollowerDisk {
 public:
  // Cache and communicator outlive it.
  FollowerDisk(SequenceCache& cache, Communicator& all,
               std::function<void(const std::string&)> warn)
      : cache_(cache), all_(all), warn_(std::move(warn)) {}

  // Does what the message says behind RankCall::kDisk. Errors: the directory cannot be used; the
  // others are gone; the message is none of ours.
  Status Run(RankMessage& message);

 private:
  Status Open(RankMessage& message);

  SequenceCache& cache_;
  Communicator& all_;
  const std::function<void(const std::string&)> warn_;
  std::unique_ptr<DiskBlocks> mine_;
  std::vector<DiskTier::FinishedLoad> finished_;
};

}  // namespace fathom
