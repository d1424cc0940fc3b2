// DiskRestore: moves blocks between the prefix cache and disk, on one rank or on several.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"
#include "kv_cache/block_store.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::engine {

// Stores blocks that leave the prefix cache and loads blocks that a waiting sequence can use.
// Engine thread only; the disk has its own threads.
class DiskRestore {
 public:
  // `disk` and `cache` must outlive this object.
  DiskRestore(BlockStore& disk, SequenceCache& cache) : disk_(disk), cache_(cache) {}

  // Stores blocks that leave `prefix`. `prefix` must outlive this object unless `prefix` is not
  // called any more. With several data ranks, call Watch once for each rank's prefix cache.
  void Watch(PrefixCache& prefix);

  // Starts to load blocks that are on disk only and after which `sequence` can start. They become
  // entries of `prefix`, which must be watched and must have returned `match`. The sequence is
  // kLoading until Finish. Returns false if there are no such blocks, or no room for them.
  bool Start(Sequence& sequence, std::span<const BlockKey> keys, const PrefixCache::Match& match,
             PrefixCache& prefix);
  // Adds loaded blocks to their prefix cache; a sequence whose load has ended waits again. Returns
  // true if any load ended.
  bool Finish();
  // Returns when a load has ended, or after 10 milliseconds.
  void Wait();
  bool IsLoading() const { return !loads_.empty(); }

  // Returns the number of blocks after which a sequence could start once they are loaded; 0:
  // nothing to load.
  std::int64_t Usable(std::span<const BlockKey> keys, const PrefixCache::Match& match,
                      const PrefixCache& prefix) const {
    return MakePlan(keys, match, prefix).n_blocks;
  }

  // Counts the blocks of a data rank that are being filled.
  void AddUses(int data_rank, BlockUses& uses) const;
  // Call when a sequence ends during its load.
  void Forget(const Sequence& sequence);

  void Save(const PrefixCache& prefix, const PrefixChain& chain);
  // Stores all idle blocks. Returns when everything is on the disk.
  void SaveAll();

 private:
  struct LoadedBlock {
    KeptBlock kept;  // being filled
    bool ok = false;
  };
  // A load for one sequence.
  struct Load {
    Sequence* sequence = nullptr;  // null: the sequence has ended
    PrefixCache* prefix = nullptr;
    PrefixChain parents;              // the entries before the loaded blocks
    std::vector<LoadedBlock> blocks;  // history blocks, in their order, then window blocks
    std::int64_t left = 0;
  };
  struct Plan {
    std::int64_t n_blocks = 0;          // blocks after which the sequence could start
    std::vector<std::int64_t> windows;  // blocks whose window block has to be loaded
  };

  Plan MakePlan(std::span<const BlockKey> keys, const PrefixCache::Match& match,
                const PrefixCache& prefix) const;
  void Store(const KeptBlock& block);
  void Insert(Load& load);

  BlockStore& disk_;
  SequenceCache& cache_;
  std::vector<PrefixCache*> prefixes_;
  std::unordered_map<std::uint64_t, Load> loads_;  // by load number
  std::uint64_t next_load_ = 0;
  std::vector<DiskTier::FinishedLoad> finished_;
};

}  // namespace fathom::engine
