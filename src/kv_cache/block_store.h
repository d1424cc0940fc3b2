// BlockStore: keeps blocks of a SequenceCache that leave memory, and brings them back: the disk of
// one rank (disk_blocks.h) or of several (engine/ranks/rank_disks.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "kv_cache/block_key.h"
#include "kv_cache/disk_tier.h"

namespace fathom {

// A block in the memory of a data rank, and what it is kept under.
struct KeptBlock {
  int data_rank = 0;
  BlockKey key;
  BlockKind kind = BlockKind::kHistory;
  BlockKey parent;
  std::span<const Token> tokens;  // kBlockTokens
  std::int32_t block = 0;         // in the cache
};

// One thread, that of the cache.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  // True if the data rank should have such a block. Whether it has shows when it is loaded.
  virtual bool Has(int data_rank, const BlockKey& key, BlockKind kind) const = 0;
  // Copies the block and stores it soon. What cannot be stored is dropped.
  virtual void Store(const KeptBlock& stored) = 0;
  // Reads a stored block into memory that must not be used otherwise until TakeFinished has
  // reported `id`.
  virtual void StartLoad(std::uint64_t id, const KeptBlock& stored) = 0;
  // Appends the loads that have ended since the last call; the memory of failed loads is undefined.
  virtual void TakeFinished(std::vector<DiskTier::FinishedLoad>& finished) = 0;
  // Returns when a load may have ended, or after `timeout`.
  virtual void WaitForFinished(std::chrono::milliseconds timeout) = 0;
  // Returns when everything stored so far is where it belongs, or dropped.
  virtual void Flush() = 0;
};

}  // namespace fathom
