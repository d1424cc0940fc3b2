// Stores blocks on the disks of several ranks. Each rank stores the part of a block that belongs to
// its layers; with several data ranks, the ranks of the data rank that computed the block store it.
//
// The first rank decides which blocks are stored and loaded, from the blocks on its own disk; for
// other data ranks, from the blocks that they reported at start and were told to store. The other
// ranks of the block's data rank store and load their parts. If one rank cannot load a block, no
// rank loads it: all parts are deleted, and the block is stored again when it has been recomputed.
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

namespace fathom::engine {

// The disk operation that follows RankCall::kDisk. The comments list the arguments.
enum class DiskCall : std::int64_t {
  kOpen,      // directory, its size, the root of the keys
  kStore,     // block
  kLoad,      // number of the load, block
  kFinished,  // none: every rank reports the loads that have ended
  kDiscard,   // data rank, key, kind
  kFlush,     // none: every rank waits for all writes
};

// The disks of all ranks, as the first rank uses them. After a failure nothing is stored, and no
// load succeeds.
class LeaderDisks : public BlockStore {
 public:
  // Sends the message to the other ranks, which then run the call.
  using Tell = std::function<Status(const std::function<void(RankMessage&)>& add)>;
  // Called when an operation among the ranks has failed and no further one can run.
  using OnFailure = std::function<void(const Error&)>;

  // Opens the disks of all ranks. `cache` and the communicator must outlive this object. Errors:
  // see DiskBlocks::Open on this rank; a rank is gone, for example because its directory cannot be
  // used.
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
    int n_ended = 0;     // ranks of the data rank that have ended the load
    bool ended = false;  // on this rank, if it belongs to the data rank
    bool ok = true;      // on all ranks that have ended the load
  };

  using Names = std::unordered_set<BlockFileName, BlockFileNameHash>;

  LeaderDisks(std::unique_ptr<DiskBlocks> mine, Communicator& all, Tell tell, OnFailure on_failure,
              std::vector<Names> known)
      : mine_(std::move(mine)),
        all_(all),
        tell_(std::move(tell)),
        on_failure_(std::move(on_failure)),
        known_(std::move(known)) {}
  bool SendToAll(DiskCall call, const std::function<void(RankMessage&)>& add = {});
  bool Succeeded(const Status& status);
  void Discard(const Loading& load);

  std::unique_ptr<DiskBlocks> mine_;
  Communicator& all_;
  const Tell tell_;
  const OnFailure on_failure_;
  std::vector<Names> known_;  // by data rank, except this rank's; without fingerprints
  std::unordered_map<std::uint64_t, Loading> loads_;  // by load number
  std::vector<DiskTier::FinishedLoad> mine_finished_;
  bool failed_ = false;
};

// The disk of another rank.
class FollowerDisk {
 public:
  // `cache` and the communicator must outlive this object.
  FollowerDisk(SequenceCache& cache, Communicator& all,
               std::function<void(const std::string&)> warn)
      : cache_(cache), all_(all), warn_(std::move(warn)) {}

  // Runs the message that follows RankCall::kDisk. Errors: the directory cannot be used; the other
  // ranks are gone; the message is malformed.
  Status Run(RankMessage& message);

 private:
  Status Open(RankMessage& message);

  SequenceCache& cache_;
  Communicator& all_;
  const std::function<void(const std::string&)> warn_;
  std::unique_ptr<DiskBlocks> mine_;
  std::vector<DiskTier::FinishedLoad> finished_;
};

}  // namespace fathom::engine
