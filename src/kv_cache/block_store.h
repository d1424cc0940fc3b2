// BlockStore: stores blocks of a SequenceCache that are evicted from memory, and loads them again:
// on the disk of one rank (disk_blocks.h) or of several (engine/ranks/rank_disks.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "kv_cache/block_key.h"
#include "kv_cache/disk_tier.h"

namespace fathom::kv_cache {

// To be used from one thread, the thread of the cache.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  // True if the data rank should have such a block. Only loading it proves that it has.
  virtual bool Has(int data_rank, const BlockKey& key, BlockKind kind) const = 0;
  // Copies the block and stores it soon. A block that cannot be stored is dropped.
  virtual void Store(const KeptBlock& stored) = 0;
  // Reads a stored block into memory that must not be used otherwise until TakeFinished has
  // reported `id`.
  virtual void StartLoad(std::uint64_t id, const KeptBlock& stored) = 0;
  // Appends the loads that have ended since the last call; the memory of failed loads is undefined.
  virtual void TakeFinished(std::vector<DiskTier::FinishedLoad>& finished) = 0;
  // Waits until a load may have ended, at most `timeout`.
  virtual void WaitForFinished(std::chrono::milliseconds timeout) = 0;
  // Waits until every block passed to Store so far is stored or dropped.
  virtual void Flush() = 0;
};

}  // namespace fathom::kv_cache
