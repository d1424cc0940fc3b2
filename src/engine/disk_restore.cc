#include "engine/disk_restore.h"

#include <algorithm>
#include <chrono>

namespace fathom {
namespace {

constexpr std::uint64_t kKinds = 2;
constexpr std::uint64_t kBlocksOfALoad = std::uint64_t{1} << 24;

// Encodes the load number, the kind of block, and its index among the blocks of that kind.
std::uint64_t MakeTicket(std::uint64_t load, BlockKind kind, std::size_t i) {
  return (load * kKinds + static_cast<std::uint64_t>(kind)) * kBlocksOfALoad + i;
}

}  // namespace

void DiskRestore::Watch(PrefixCache& prefix) {
  prefixes_.push_back(&prefix);
  prefix.set_on_evicted([this, rank = prefix.data_rank()](
                            const PrefixCache::EvictedBlock& evicted) { Store(rank, evicted); });
}

void DiskRestore::Store(int data_rank, const PrefixCache::EvictedBlock& evicted) {
  if (!disk_.Has(data_rank, evicted.key, evicted.kind)) {
    disk_.Store({.data_rank = data_rank,
                 .key = evicted.key,
                 .kind = evicted.kind,
                 .parent = evicted.parent,
                 .tokens = evicted.tokens,
                 .block = evicted.block});
  }
}

void DiskRestore::Save(const PrefixCache& prefix, const PrefixChain& chain) {
  prefix.ForEach(
      chain, [&](const PrefixCache::EvictedBlock& evicted) { Store(prefix.data_rank(), evicted); });
}

void DiskRestore::SaveAll() {
  for (const PrefixCache* prefix : prefixes_) {
    prefix->ForEachIdle([&](const PrefixCache::EvictedBlock& evicted) {
      Store(prefix->data_rank(), evicted);
      disk_.Flush();  // flushed each time, so that no block is dropped because too many wait
    });
  }
}

// Follows the history blocks in memory and on disk without a gap, and returns the last boundary
// whose window blocks are in memory or on disk.
DiskRestore::Plan DiskRestore::MakePlan(std::span<const BlockKey> keys,
                                        const PrefixCache::Match& match,
                                        const PrefixCache& prefix) const {
  std::int64_t n_known = match.n_known;
  while (
      n_known < std::ssize(keys) &&
      disk_.Has(prefix.data_rank(), keys[static_cast<std::size_t>(n_known)], BlockKind::kHistory)) {
    ++n_known;
  }
  Plan plan;
  for (std::int64_t n = n_known; n > match.n_usable; --n) {
    plan.windows.clear();
    bool complete = true;
    for (std::int64_t i = n - cache_.BoundaryWindows(n); i < n && complete; ++i) {
      const BlockKey& key = keys[static_cast<std::size_t>(i)];
      if (i >= match.n_known || !prefix.HasWindow(key)) {
        complete = disk_.Has(prefix.data_rank(), key, BlockKind::kWindow);
        plan.windows.push_back(i);
      }
    }
    if (complete) {
      plan.n_blocks = n;
      return plan;
    }
  }
  return plan;
}

bool DiskRestore::Start(Sequence& sequence, std::span<const BlockKey> keys,
                        const PrefixCache::Match& match, PrefixCache& prefix) {
  const Plan plan = MakePlan(keys, match, prefix);
  const std::int64_t n_history = std::max<std::int64_t>(plan.n_blocks - match.n_known, 0);
  const BlockCounts wanted = {.history = n_history, .window = std::ssize(plan.windows)};
  if (plan.n_blocks == 0) return false;
  // Pins the entries before the new blocks, so that making room does not evict them.
  PrefixChain parents;
  prefix.PinKnown(keys.first(static_cast<std::size_t>(match.n_known)), parents);
  if (!prefix.MakeRoom(wanted, false)) {
    prefix.Unpin(parents);
    return false;
  }
  const std::uint64_t number = next_load_++;
  Load& load = loads_[number];
  load.sequence = &sequence;
  load.prefix = &prefix;
  load.parents = std::move(parents);
  const auto start = [&](BlockKind kind, std::int64_t i, std::vector<LoadedBlock>& blocks) {
    const auto at = static_cast<std::size_t>(i);
    const std::span<const Token> tokens =
        std::span<const Token>(sequence.tokens).subspan(at * kBlockTokens, kBlockTokens);
    const std::int32_t block = cache_.arena(prefix.data_rank()).Allocate(kind).value();
    blocks.push_back({.key = keys[at],
                      .parent = i == 0 ? prefix.root() : keys[at - 1],
                      .tokens = {tokens.begin(), tokens.end()},
                      .block = block});
    const KeptBlock kept = {.data_rank = prefix.data_rank(),
                            .key = keys[at],
                            .kind = kind,
                            .parent = blocks.back().parent,
                            .tokens = tokens,
                            .block = block};
    disk_.StartLoad(MakeTicket(number, kind, blocks.size() - 1), kept);
    ++load.left;
  };
  for (std::int64_t i = match.n_known; i < plan.n_blocks; ++i) {
    start(BlockKind::kHistory, i, load.history);
  }
  for (const std::int64_t i : plan.windows) {
    start(BlockKind::kWindow, i, load.windows);
  }
  sequence.phase = SequencePhase::kLoading;
  return true;
}

bool DiskRestore::Finish() {
  finished_.clear();
  disk_.TakeFinished(finished_);
  for (const DiskTier::FinishedLoad& finished : finished_) {
    const std::uint64_t number = finished.id / kBlocksOfALoad / kKinds;
    const auto kind = static_cast<BlockKind>(finished.id / kBlocksOfALoad % kKinds);
    Load& load = loads_.at(number);
    std::vector<LoadedBlock>& blocks = kind == BlockKind::kHistory ? load.history : load.windows;
    blocks[finished.id % kBlocksOfALoad].ok = finished.ok;
    if (--load.left == 0) {
      Insert(load);
      loads_.erase(number);
    }
  }
  return !finished_.empty();
}

// Inserts blocks up to the first that could not be read. Another sequence may have computed some of
// them meanwhile; their copies are freed.
void DiskRestore::Insert(Load& load) {
  PrefixCache& prefix = *load.prefix;
  BlockArena& arena = cache_.arena(prefix.data_rank());
  bool usable = true;
  for (const LoadedBlock& loaded : load.history) {
    usable = usable && loaded.ok;
    if (usable && !prefix.Has(loaded.key)) {
      prefix.Insert(loaded.key, loaded.parent, loaded.tokens, loaded.block, kNoBlock);
      prefix.PinNext(loaded.key, load.parents);
    } else {
      arena.Free(BlockKind::kHistory, loaded.block);
      if (usable) {
        prefix.PinNext(loaded.key, load.parents);
      }
    }
  }
  for (const LoadedBlock& loaded : load.windows) {
    if (loaded.ok && prefix.Has(loaded.key) && !prefix.HasWindow(loaded.key)) {
      prefix.InsertWindow(loaded.key, loaded.block);
    } else {
      arena.Free(BlockKind::kWindow, loaded.block);
    }
  }
  prefix.Unpin(load.parents);
  if (load.sequence != nullptr) {
    load.sequence->phase = SequencePhase::kWaiting;
  }
}

void DiskRestore::Forget(const Sequence& sequence) {
  for (auto& [number, load] : loads_) {
    if (load.sequence == &sequence) {
      load.sequence = nullptr;
    }
  }
}

void DiskRestore::AddUses(int data_rank, BlockUses& uses) const {
  for (const auto& [number, load] : loads_) {
    if (load.prefix->data_rank() != data_rank) continue;
    for (const LoadedBlock& loaded : load.history) {
      uses.history[static_cast<std::size_t>(loaded.block)] += 1;
    }
    for (const LoadedBlock& loaded : load.windows) {
      uses.window[static_cast<std::size_t>(loaded.block)] += 1;
    }
  }
}

void DiskRestore::Wait() {
  if (IsLoading()) {
    disk_.WaitForFinished(std::chrono::milliseconds(10));
  }
}

}  // namespace fathom
