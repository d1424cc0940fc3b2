// DiskRestore: between the prefix cache and the blocks on disk, of one rank or of several.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"
#include "kv_cache/block_store.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/sequence_cache.h"

namespace fathom {

// Stores what leaves the prefix cache, and loads what a waiting sequence can use of it. One thread,
// that of the engine; the disk has its own.
class DiskRestore {
 public:
  // Both outlive it.
  DiskRestore(BlockStore& disk, SequenceCache& cache) : disk_(disk), cache_(cache) {}

  // From now on, blocks that leave `prefix` are stored. It outlives this, or nothing is called any
  // more. Of several data ranks each has one.
  void Watch(PrefixCache& prefix);

  // Starts to load the blocks that `sequence` can begin behind and that are on disk only, to make
  // them entries of `prefix`, which is watched and has the match; false if there are none, or no
  // room for them. It is kLoading then, until Finish.
  bool Start(Sequence& sequence, std::span<const BlockKey> keys, const PrefixCache::Match& match,
             PrefixCache& prefix);
  // Makes entries of what was loaded; sequences whose last load has ended wait again. True if there
  // was anything.
  bool Finish();
  // Returns when there is something to finish, or after a moment.
  void Wait();
  bool IsLoading() const { return !loads_.empty(); }

  // How many blocks it could begin behind with what can be loaded; 0: nothing can.
  std::int64_t Usable(std::span<const BlockKey> keys, const PrefixCache::Match& match,
                      const PrefixCache& prefix) const {
    return MakePlan(keys, match, prefix).n_blocks;
  }

  // Adds the uses of a data rank's blocks that are being filled.
  void AddUses(int data_rank, BlockUses& uses) const;
  // The sequence will not be there when its load has ended.
  void Forget(const Sequence& sequence);

  void Save(const PrefixCache& prefix, const PrefixChain& chain);
  // Returns when everything is on the disk.
  void SaveAll();

 private:
  struct LoadedBlock {
    BlockKey key;
    BlockKey parent;
    std::vector<Token> tokens;
    std::int32_t block = kNoBlock;  // being filled
    bool ok = false;
  };
  // What is read for a sequence.
  struct Load {
    Sequence* sequence = nullptr;  // null: it is gone
    PrefixCache* prefix = nullptr;
    PrefixChain parents;  // what the blocks stand behind
    std::vector<LoadedBlock> history;
    std::vector<LoadedBlock> windows;
    std::int64_t left = 0;
  };
  struct Plan {
    std::int64_t n_blocks = 0;          // the sequence could begin behind so many
    std::vector<std::int64_t> windows;  // blocks whose window block is to be loaded
  };

  Plan MakePlan(std::span<const BlockKey> keys, const PrefixCache::Match& match,
                const PrefixCache& prefix) const;
  void Store(int data_rank, const PrefixCache::Leaving& leaving);
  void Insert(Load& load);

  BlockStore& disk_;
  SequenceCache& cache_;
  std::vector<PrefixCache*> prefixes_;
  std::unordered_map<std::uint64_t, Load> loads_;  // by number of the load
  std::uint64_t next_load_ = 0;
  std::vector<DiskTier::FinishedLoad> finished_;
};

}  // namespace fathom
