#include "engine/cache_manager.h"

#include <algorithm>

#include "base/check.h"
#include "engine/disk_restore.h"

namespace fathom::engine {
namespace {

// Returns the keys of the blocks that may come from a cache. The last token is always computed,
// because its logits choose the next token. Tokens to be scored are always computed, too.
std::span<const BlockKey> ShareableKeys(const Sequence& sequence) {
  const std::int64_t first_scored = sequence.FirstUnscored();
  const bool scores = first_scored < sequence.n_prompt - 1;
  const std::int64_t n_blocks = (scores ? first_scored : sequence.size() - 1) / kBlockTokens;
  return std::span(sequence.keys).first(static_cast<std::size_t>(n_blocks));
}

}  // namespace

CacheManager::CacheManager(SequenceCache& cache, const BlockKey& root, bool prefix_cache,
                           DiskRestore* disk, EngineMetrics& metrics)
    : cache_(cache), root_(root), disk_(disk), metrics_(metrics) {
  const CacheShape& shape = cache.shape();
  most_windows_ =
      std::min(MostWindowBlocks(shape), BlockCount(shape.max_context + shape.lookahead));
  const BlockArena& arena = cache.arena(0);
  const std::int64_t history_slabs = arena.n_slabs() - most_windows_;
  const std::int64_t blocks = history_slabs * arena.histories_per_slab();
  most_positions_ =
      std::clamp<std::int64_t>(blocks * kBlockTokens - shape.lookahead, 0, shape.max_context);
  for (int rank = 0; prefix_cache && rank < data_ranks().n; ++rank) {
    prefixes_.push_back(std::make_unique<PrefixCache>(cache, root, rank));
    if (disk_ != nullptr) {
      disk_->Watch(*prefixes_.back());
    }
  }
}

CacheManager::~CacheManager() {
  for (std::int64_t slot = 0; slot < cache_.shape().n_sequences; ++slot) {
    cache_.Release(static_cast<std::int32_t>(slot));
  }
}

// Estimates whether room can be made, to avoid a useless attempt. The estimate is optimistic:
// blocks that Evictable counts may be in use, and slabs may be shared.
bool CacheManager::CouldHaveRoom(int data_rank, const BlockCounts& wanted) const {
  const BlockArena& arena = cache_.arena(data_rank);
  const PrefixCache* prefix = FindPrefix(data_rank);
  if (prefix == nullptr || arena.HasRoom(wanted)) return arena.HasRoom(wanted);
  const std::int64_t per_slab = arena.histories_per_slab();
  const BlockCounts evictable = prefix->Evictable();
  const std::int64_t free = arena.n_slabs() * per_slab -
                            (arena.in_use().history - evictable.history) -
                            (arena.in_use().window - evictable.window) * per_slab;
  return wanted.history + wanted.window * per_slab <= free;
}

bool CacheManager::MakeRoom(int data_rank, const BlockCounts& wanted, bool only_windows) {
  PrefixCache* prefix = FindPrefix(data_rank);
  if (prefix == nullptr) return cache_.arena(data_rank).HasRoom(wanted);
  const std::int64_t before = prefix->n_evicted();
  const bool made = prefix->MakeRoom(wanted, only_windows);
  metrics_.Add(&MetricsSnapshot::evicted_blocks, prefix->n_evicted() - before);
  return made;
}

// Returns the blocks needed for all tokens before the first generated one and for the steps after
// it.
BlockCounts CacheManager::CountNeeds(const Sequence& sequence, std::int64_t n_usable) const {
  const std::int64_t lookahead = cache_.shape().lookahead;
  const std::int64_t positions = std::min(sequence.size() + 1, most_positions_) + lookahead;
  return {.history = BlockCount(positions) - n_usable,
          .window = most_windows_ - cache_.BoundaryWindows(n_usable)};
}

// Attaches the cached blocks before making room, so that they are not evicted.
bool CacheManager::TakeSlot(Sequence& sequence, std::int32_t slot, std::int64_t n_usable,
                            std::int64_t headroom) {
  const int data_rank = data_ranks().Owner(slot);
  BlockCounts needs = CountNeeds(sequence, n_usable);
  needs.history += headroom;
  if (!CouldHaveRoom(data_rank, needs)) return false;
  sequence.slot = slot;
  if (n_usable > 0) {
    FindPrefix(data_rank)->Attach(slot, sequence.keys, n_usable, sequence.chain);
  } else {
    cache_.Release(slot);
  }
  if (!MakeRoom(data_rank, needs, false)) {
    Release(sequence, false);
    return false;
  }
  sequence.computed = n_usable * kBlockTokens;
  sequence.draft_key_waits = n_usable > 0;
  return true;
}

void CacheManager::ExtendKeys(Sequence& sequence) const {
  const bool is_first = sequence.keys.empty();  // the other keys follow from the first
  const std::string& salt = sequence.request.request.cache_salt;
  kv_cache::ExtendKeys(is_first ? SaltedRoot(root_, salt) : root_, sequence.tokens, sequence.keys);
}

PrefixHit CacheManager::Find(Sequence& sequence, int data_rank,
                             std::span<Sequence* const> running) const {
  PrefixHit hit;
  const PrefixCache* prefix = FindPrefix(data_rank);
  if (prefix == nullptr) return hit;
  ExtendKeys(sequence);
  const std::span<const BlockKey> keys = ShareableKeys(sequence);
  hit.match = prefix->Find(keys, sequence.tokens);
  const auto next = static_cast<std::size_t>(hit.match.n_known);
  for (const Sequence* other : running) {
    const bool will_have = DataRank(*other) == data_rank && next < keys.size() &&
                           other->n_left() > 1 && next < other->keys.size() &&
                           next >= other->chain.entries.size() && other->keys[next] == keys[next];
    if (will_have && !other->chain.collided) {
      const auto differ = std::ranges::mismatch(keys, other->keys).in1;
      hit.n_soon = std::max<std::int64_t>(hit.n_soon, differ - keys.begin());
    }
  }
  if (disk_ != nullptr && data_ranks().n > 1) {  // with one data rank there is no choice
    hit.n_stored = disk_->Usable(keys, hit.match, *prefix);
  }
  return hit;
}

Admission CacheManager::Admit(Sequence& sequence, std::int32_t slot, const PrefixHit& hit,
                              std::int64_t n_running) {
  PrefixCache* prefix = FindPrefix(data_ranks().Owner(slot));
  if (prefix != nullptr && disk_ != nullptr &&
      disk_->Start(sequence, ShareableKeys(sequence), hit.match, *prefix)) {
    return Admission::kLoads;
  }
  const std::int64_t n_usable = hit.match.n_usable;
  if (TakeSlot(sequence, slot, n_usable, n_running) ||
      // The sequence runs alone: it fits without its cached blocks if these leave too little
      // memory.
      // memory.
      (n_running == 0 && n_usable > 0 && TakeSlot(sequence, slot, 0, n_running))) {
    return Admission::kAdmitted;
  }
  return Admission::kNoRoom;
}

bool CacheManager::Extend(Sequence& sequence, std::int64_t n_tokens) {
  const auto attempt = [&](StoredWindows windows, bool only_windows) {
    const BlockCounts missing = cache_.Missing(sequence.slot, sequence.computed, n_tokens, windows);
    return MakeRoom(DataRank(sequence), missing, only_windows) &&
           cache_.Extend(sequence.slot, sequence.computed, n_tokens, windows).has_value();
  };
  const bool wants_all = !prefixes_.empty() && n_tokens > 1;
  return (wants_all && attempt(StoredWindows::kAll, true)) || attempt(StoredWindows::kSeen, false);
}

void CacheManager::Commit(Sequence& sequence) {
  if (PrefixCache* prefix = FindPrefix(DataRank(sequence)); prefix != nullptr) {
    ExtendKeys(sequence);
    prefix->Commit(sequence.slot, sequence.keys, sequence.tokens, sequence.computed / kBlockTokens,
                   sequence.chain);
    if (sequence.computed >= sequence.n_prompt && sequence.n_generated() <= 1) {
      prefix->MarkEnd(sequence.chain, (sequence.n_prompt - 1) / kBlockTokens);
    }
  }
  cache_.Trim(sequence.slot);
}

void CacheManager::Fork(const Sequence& from, Sequence& to) {
  cache_.Fork(from.slot, to.slot);
  to.computed = from.computed;
  to.draft_key_waits = true;
  to.keys = from.keys;
  if (PrefixCache* prefix = FindPrefix(DataRank(from)); prefix != nullptr) {
    prefix->Share(from.chain, to.chain);
  }
}

void CacheManager::Release(Sequence& sequence, bool finished) {
  if (sequence.slot < 0) return;
  PrefixCache* prefix = FindPrefix(DataRank(sequence));
  if (prefix != nullptr && finished) {
    prefix->MarkEnd(sequence.chain, std::ssize(sequence.chain.entries));
    if (disk_ != nullptr) {
      disk_->Save(*prefix, sequence.chain);
    }
  }
  cache_.Release(sequence.slot);
  if (prefix != nullptr) {
    prefix->Unpin(sequence.chain);
  }
  sequence.slot = -1;
  sequence.computed = 0;
  sequence.drafts.clear();
}

void CacheManager::ClearPrefixes() {
  for (const std::unique_ptr<PrefixCache>& prefix : prefixes_) {
    const std::int64_t before = prefix->n_evicted();
    prefix->Clear();
    metrics_.Add(&MetricsSnapshot::evicted_blocks, prefix->n_evicted() - before);
  }
  Report();
}

void CacheManager::Report() {
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t idle = 0;
  for (int rank = 0; rank < data_ranks().n; ++rank) {
    const BlockArena& arena = cache_.arena(rank);
    const std::int64_t history = cache_.SlabBytes() / arena.histories_per_slab();
    const PrefixCache* prefix = FindPrefix(rank);
    total += arena.n_slabs() * cache_.SlabBytes();
    used += arena.in_use().history * history + arena.in_use().window * cache_.SlabBytes();
    idle += prefix == nullptr ? 0 : prefix->Evictable().history * history;
  }
  metrics_.SetMemory(total, used - idle, idle);
}

bool CacheManager::IsConsistent() const {
  for (int rank = 0; rank < data_ranks().n; ++rank) {
    const BlockUses counted = cache_.arena(rank).uses();
    BlockUses uses = {.history = std::vector<std::int32_t>(counted.history.size()),
                      .window = std::vector<std::int32_t>(counted.window.size())};
    cache_.AddUses(rank, uses);
    const PrefixCache* prefix = FindPrefix(rank);
    if (prefix != nullptr) {
      prefix->AddUses(uses);
    }
    if (disk_ != nullptr) {
      disk_->AddUses(rank, uses);
    }
    if (uses != counted || (prefix != nullptr && !prefix->IsConsistent())) return false;
  }
  return true;
}

}  // namespace fathom::engine
