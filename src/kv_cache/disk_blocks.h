// DiskBlocks: the blocks of one rank's cache, on its disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv_cache/block_directory.h"
#include "kv_cache/block_store.h"
#include "kv_cache/disk_tier.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::kv_cache {

// Returns the fingerprint of the files of a cache. root: the fingerprint of everything that decides
// the bytes of a block of the whole model. Every part of the layers has another fingerprint; ranks
// that cache the same layers have the same bytes, and the same files.
BlockKey FingerprintOfLayers(const BlockKey& root, const CacheShape& shape);

// Stores the blocks of this data rank only. Where the host cannot access the memory of the cache,
// blocks are copied through host memory.
class DiskBlocks : public BlockStore {
 public:
  // The cache must outlive the result. `warn` and errors: as for DiskTier::Open.
  static Result<std::unique_ptr<DiskBlocks>> Open(SequenceCache& cache,
                                                  const DiskTierOptions& options,
                                                  const BlockKey& root,
                                                  std::function<void(const std::string&)> warn);

  bool Has(int data_rank, const BlockKey& key, BlockKind kind) const override {
    return data_rank == own_rank() && disk_->Has(key, kind);
  }
  void Store(const KeptBlock& stored) override;
  void StartLoad(std::uint64_t id, const KeptBlock& stored) override;
  void TakeFinished(std::vector<DiskTier::FinishedLoad>& finished) override;
  void WaitForFinished(std::chrono::milliseconds timeout) override {
    disk_->WaitForFinished(timeout);
  }
  void Flush() override { disk_->Flush(); }
  void Discard(const BlockKey& key, BlockKind kind) { disk_->Discard(key, kind); }
  std::vector<BlockFileName> Names() const { return disk_->Names(); }
  int own_rank() const { return data_ranks().rank; }
  const DataRanks& data_ranks() const { return cache_.shape().data; }

 private:
  DiskBlocks(SequenceCache& cache, std::unique_ptr<DiskTier> disk)
      : cache_(cache), disk_(std::move(disk)) {}

  // A block that is being loaded from disk into memory that the host cannot access.
  struct StagedLoad {
    BlockKind kind = BlockKind::kHistory;
    std::int32_t block = 0;
    std::vector<std::byte> payload;
  };

  SequenceCache& cache_;
  std::vector<std::byte> staged_store_;
  std::unordered_map<std::uint64_t, StagedLoad> staged_loads_;  // by id
  std::unique_ptr<DiskTier> disk_;  // last: its thread writes staged loads
};

}  // namespace fathom::kv_cache
