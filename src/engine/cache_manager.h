// CacheManager: decides which sequences have memory, what they share, and what is evicted.
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

namespace fathom::engine {

class DiskRestore;  // engine/disk_restore.h

enum class Admission {
  kAdmitted,  // the sequence has the slot and the cached blocks of its prefix
  kNoRoom,    // too few blocks for the tokens to compute
  kLoads,     // blocks of the sequence are being read from the disk
};

// The offer of a data rank to a sequence that has no slot.
struct PrefixHit {
  PrefixCache::Match match;  // cached blocks
  // Blocks that the sequence will share once a running sequence of the rank has computed them,
  // including the cached blocks. More than are cached now; 0: no such blocks.
  std::int64_t n_soon = 0;
  // Blocks after which the sequence can start once some are read from the disk; 0: none are stored.
  std::int64_t n_stored = 0;

  std::int64_t Most() const { return n_soon > 0 ? n_soon : std::max(match.n_usable, n_stored); }
};

// Every data rank (kv_cache/data_ranks.h) has its own blocks and its own prefix cache; the slot
// determines the data rank. Engine thread only.
class CacheManager {
 public:
  // `disk` may be null. `disk` and `cache` must outlive the manager.
  CacheManager(SequenceCache& cache, const BlockKey& root, bool prefix_cache, DiskRestore* disk,
               EngineMetrics& metrics);
  // Leaves the cache empty, ready for another manager.
  ~CacheManager();

  // Returns the positions for which a sequence that runs alone has blocks.
  std::int64_t MostPositions() const { return most_positions_; }

  const DataRanks& data_ranks() const { return cache_.shape().data; }

  // Returns what `sequence` would find on the data rank. `running`: all sequences that have a slot,
  // on any rank.
  PrefixHit Find(Sequence& sequence, int data_rank, std::span<Sequence* const> running) const;
  // Gives `sequence` the slot and the cached blocks of its data rank, on which n_running other
  // sequences run. Keeps one block free for each of them.
  Admission Admit(Sequence& sequence, std::int32_t slot, const PrefixHit& hit,
                  std::int64_t n_running);
  // Allocates blocks for the next n_tokens of `sequence`, evicting from the prefix cache if
  // necessary. Returns false, with nothing allocated, if memory is short.
  bool Extend(Sequence& sequence, std::int64_t n_tokens);
  // Call after a step: positions before sequence.computed are final.
  void Commit(Sequence& sequence);
  // Makes `to`, which has only a slot of the same data rank, a copy of `from`.
  void Fork(const Sequence& from, Sequence& to);
  // Frees the slot and blocks of the sequence. Committed blocks stay in the prefix cache.
  void Release(Sequence& sequence, bool finished);

  // Evicts all blocks of the prefix caches that no sequence uses; the disk keeps what it has.
  void ClearPrefixes();

  // Updates the memory gauges.
  void Report();
  // For tests: true if the reference count of every block is the number of its users.
  bool IsConsistent() const;

 private:
  // Null: the prefix cache is off.
  PrefixCache* FindPrefix(int data_rank) const {
    return prefixes_.empty() ? nullptr : prefixes_[static_cast<std::size_t>(data_rank)].get();
  }
  int DataRank(const Sequence& sequence) const { return data_ranks().Owner(sequence.slot); }
  bool CouldHaveRoom(int data_rank, const BlockCounts& wanted) const;
  bool MakeRoom(int data_rank, const BlockCounts& wanted, bool only_windows);
  bool TakeSlot(Sequence& sequence, std::int32_t slot, std::int64_t n_usable,
                std::int64_t headroom);
  void ExtendKeys(Sequence& sequence) const;
  BlockCounts CountNeeds(const Sequence& sequence, std::int64_t n_usable) const;

  SequenceCache& cache_;
  const BlockKey root_;
  std::vector<std::unique_ptr<PrefixCache>> prefixes_;  // by data rank; empty: off
  DiskRestore* const disk_;
  EngineMetrics& metrics_;
  std::int64_t most_positions_ = 0;
  std::int64_t most_windows_ = 0;
};

}  // namespace fathom::engine
