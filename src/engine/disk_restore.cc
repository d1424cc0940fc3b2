#include "engine/disk_restore.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fathom::engine {
namespace {

// The number of a load times this, plus the index of a block, is the ticket of the block.
constexpr std::uint64_t kBlocksOfALoad = std::uint64_t{1} << 24;

}  // namespace

void DiskRestore::Watch(PrefixCache& prefix) {
  prefixes_.push_back(&prefix);
  prefix.set_on_evicted([this](const KeptBlock& block) { Store(block); });
}

void DiskRestore::Store(const KeptBlock& block) {
  if (!disk_.Has(block.data_rank, block.key, block.kind)) disk_.Store(block);
}

void DiskRestore::Save(const PrefixCache& prefix, const PrefixChain& chain) {
  prefix.ForEach(chain, [this](const KeptBlock& block) { Store(block); });
}

void DiskRestore::SaveAll() {
  for (const PrefixCache* prefix : prefixes_) {
    prefix->ForEachIdle([this](const KeptBlock& block) {
      Store(block);
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
  const auto start = [&](BlockKind kind, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const auto tokens = sequence.tokens.begin() + i * kBlockTokens;
    KeptBlock kept = {.data_rank = prefix.data_rank(),
                      .key = keys[at],
                      .kind = kind,
                      .parent = i == 0 ? prefix.root() : keys[at - 1],
                      .tokens = {tokens, tokens + kBlockTokens},
                      .block = cache_.arena(prefix.data_rank()).Allocate(kind).value()};
    disk_.StartLoad(number * kBlocksOfALoad + load.blocks.size(), kept);
    load.blocks.push_back({.kept = std::move(kept)});
  };
  for (std::int64_t i = match.n_known; i < plan.n_blocks; ++i) start(BlockKind::kHistory, i);
  for (const std::int64_t i : plan.windows) start(BlockKind::kWindow, i);
  load.left = std::ssize(load.blocks);
  sequence.phase = SequencePhase::kLoading;
  return true;
}

bool DiskRestore::Finish() {
  finished_.clear();
  disk_.TakeFinished(finished_);
  for (const DiskTier::FinishedLoad& finished : finished_) {
    const std::uint64_t number = finished.id / kBlocksOfALoad;
    Load& load = loads_.at(number);
    load.blocks[finished.id % kBlocksOfALoad].ok = finished.ok;
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
  for (const auto& [kept, ok] : load.blocks) {
    bool is_inserted = false;
    if (kept.kind == BlockKind::kHistory) {
      usable = usable && ok;
      is_inserted = usable && !prefix.Has(kept.key);
      if (is_inserted) prefix.Insert(kept.key, kept.parent, kept.tokens, kept.block, kNoBlock);
      if (usable) prefix.PinNext(kept.key, load.parents);
    } else {
      is_inserted = ok && prefix.Has(kept.key) && !prefix.HasWindow(kept.key);
      if (is_inserted) prefix.InsertWindow(kept.key, kept.block);
    }
    if (!is_inserted) arena.Free(kept.kind, kept.block);
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
    for (const auto& [kept, ok] : load.blocks) {
      uses.Of(kept.kind)[static_cast<std::size_t>(kept.block)] += 1;
    }
  }
}

void DiskRestore::Wait() {
  if (IsLoading()) {
    disk_.WaitForFinished(std::chrono::milliseconds(10));
  }
}

}  // namespace fathom::engine
