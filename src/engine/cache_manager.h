// CacheManager: which sequences have memory, what they share, and who gives it up.
#ifndef FATHOM_ENGINE_CACHE_MANAGER_H_
#define FATHOM_ENGINE_CACHE_MANAGER_H_

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
  kAdmitted,    // it has the slot, and the blocks of its prefix that were cached
  kNoRoom,      // too few blocks for what it has to compute
  kSharesSoon,  // another sequence is computing what it can share
  kLoads,       // its blocks are being read from the disk
};

// One thread, that of the engine.
class CacheManager {
 public:
  // `disk` may be null; it and the cache outlive the manager.
  CacheManager(SequenceCache& cache, const BlockKey& root, bool prefix_cache, DiskRestore* disk,
               EngineMetrics& metrics);
  ~CacheManager();

  // Positions that a sequence can have when it is alone: what the blocks are enough for.
  std::int64_t MostPositions() const { return most_positions_; }

  // Gives `sequence` the slot. `running` are those that have one; headroom: blocks beyond its own
  // needs that must be free, for theirs.
  Admission Admit(Sequence& sequence, std::int32_t slot, std::span<Sequence* const> running,
                  std::int64_t headroom);
  // Makes room for the next n_tokens of `sequence`; gives up what only the prefix cache holds if it
  // must. False, with nothing taken: there is not enough.
  bool Extend(Sequence& sequence, std::int64_t n_tokens);
  // After a step: its positions before sequence.computed are final.
  void Commit(Sequence& sequence);
  // `to`, which has a slot and nothing else, goes on as a copy of `from`.
  void Fork(const Sequence& from, Sequence& to);
  // Gives everything back. The prefix cache keeps what was committed.
  void Release(Sequence& sequence, bool finished);

  // Sets the gauges of memory.
  void Report();
  // For tests: every block that is in use has its users.
  bool IsConsistent() const;
  const PrefixCache* prefix() const { return prefix_.get(); }

 private:
  bool CouldHaveRoom(const BlockCounts& wanted) const;
  bool MakeRoom(const BlockCounts& wanted, bool only_windows);
  bool TakeSlot(Sequence& sequence, std::int32_t slot, std::int64_t n_usable,
                std::int64_t headroom);
  BlockCounts NeedsOf(const Sequence& sequence, std::int64_t n_usable) const;

  SequenceCache& cache_;
  const BlockKey root_;
  std::unique_ptr<PrefixCache> prefix_;  // null: off
  DiskRestore* const disk_;
  EngineMetrics& metrics_;
  std::int64_t most_positions_ = 0;
  std::int64_t most_windows_ = 0;
};

}  // namespace fathom

#endif  // FATHOM_ENGINE_CACHE_MANAGER_H_
