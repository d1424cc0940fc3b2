// CacheManager: which sequences have memory, what they share, and who gives it up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/metrics.h"
#include "engine/sequence.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/sequence_cache.h"

namespace fathom {

class DiskRestore;  // engine/disk_restore.h

enum class Admission {
  kAdmitted,  // it has the slot, and the blocks of its prefix that were cached
  kNoRoom,    // too few blocks for what it has to compute
  kLoads,     // its blocks are being read from the disk
};

// What a data rank has of a sequence that has no slot.
struct PrefixHit {
  PrefixCache::Match match;  // blocks that are cached
  // Blocks, the cached ones among them, that it will share when a sequence that runs there has
  // computed them: more than are known. 0: none does.
  std::int64_t n_soon = 0;
  // Blocks that it can begin behind when some have been read from the disk; 0: none are there.
  std::int64_t n_stored = 0;

  std::int64_t Most() const { return n_soon > 0 ? n_soon : std::max(match.n_usable, n_stored); }
};

// Every data rank (kv_cache/data_ranks.h) has blocks and a prefix cache of its own; a slot says
// which. One thread, that of the engine.
class CacheManager {
 public:
  // `disk` may be null; it and the cache outlive the manager.
  CacheManager(SequenceCache& cache, const BlockKey& root, bool prefix_cache, DiskRestore* disk,
               EngineMetrics& metrics);
  ~CacheManager();

  // Positions that a sequence can have when it is alone: what the blocks are enough for.
  std::int64_t MostPositions() const { return most_positions_; }

  const DataRanks& data_ranks() const { return cache_.shape().data; }

  // What `sequence` would find on the data rank. `running` are those that have a slot, of any rank.
  PrefixHit Find(Sequence& sequence, int data_rank, std::span<Sequence* const> running) const;
  // Gives `sequence` the slot and what was found on its data rank, on which n_running others run.
  // For their needs a block of each must be left.
  Admission Admit(Sequence& sequence, std::int32_t slot, const PrefixHit& hit,
                  std::int64_t n_running);
  // Makes room for the next n_tokens of `sequence`; gives up what only the prefix cache holds if it
  // must. False, with nothing taken: there is not enough.
  bool Extend(Sequence& sequence, std::int64_t n_tokens);
  // After a step: its positions before sequence.computed are final.
  void Commit(Sequence& sequence);
  // `to`, which has a slot of the same data rank and nothing else, goes on as a copy of `from`.
  void Fork(const Sequence& from, Sequence& to);
  // Gives everything back. The prefix cache keeps what was committed.
  void Release(Sequence& sequence, bool finished);

  // Sets the gauges of memory.
  void Report();
  // For tests: every block that is in use has its users.
  bool IsConsistent() const;

 private:
  // Null if there is none.
  PrefixCache* PrefixOf(int data_rank) const {
    return prefixes_.empty() ? nullptr : prefixes_[static_cast<std::size_t>(data_rank)].get();
  }
  int RankOf(const Sequence& sequence) const { return data_ranks().OwnerOf(sequence.slot); }
  bool CouldHaveRoom(int data_rank, const BlockCounts& wanted) const;
  bool MakeRoom(int data_rank, const BlockCounts& wanted, bool only_windows);
  bool TakeSlot(Sequence& sequence, std::int32_t slot, std::int64_t n_usable,
                std::int64_t headroom);
  BlockCounts NeedsOf(const Sequence& sequence, std::int64_t n_usable) const;

  SequenceCache& cache_;
  const BlockKey root_;
  std::vector<std::unique_ptr<PrefixCache>> prefixes_;  // by data rank; empty: off
  DiskRestore* const disk_;
  EngineMetrics& metrics_;
  std::int64_t most_positions_ = 0;
  std::int64_t most_windows_ = 0;
};

}  // namespace fathom
