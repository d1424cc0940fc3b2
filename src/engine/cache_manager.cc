#include "engine/cache_manager.h"

#include <algorithm>

#include "base/check.h"
#include "engine/disk_restore.h"

namespace fathom {
namespace {

// Blocks of a text that may be taken from a cache: its last token is computed in any case, because
// the next one comes from its logits.
std::int64_t ShareableBlocks(const Sequence& sequence) {
  return (sequence.size() - 1) / kBlockTokens;
}

}  // namespace

CacheManager::CacheManager(SequenceCache& cache, const BlockKey& root, bool prefix_cache,
                           DiskRestore* disk, EngineMetrics& metrics)
    : cache_(cache), root_(root), disk_(disk), metrics_(metrics) {
  const CacheShape& shape = cache.shape();
  most_windows_ = std::min(MostWindowBlocks(shape), BlocksOf(shape.max_context + shape.lookahead));
  const std::int64_t history_slabs = cache.arena().n_slabs() - most_windows_;
  const std::int64_t blocks = history_slabs * cache.arena().histories_per_slab();
  most_positions_ =
      std::clamp<std::int64_t>(blocks * kBlockTokens - shape.lookahead, 0, shape.max_context);
  if (prefix_cache) {
    prefix_ = std::make_unique<PrefixCache>(cache, root);
    if (disk_ != nullptr) {
      disk_->Watch(*prefix_);
    }
  }
}

CacheManager::~CacheManager() = default;

// What Evictable counts may be in use, and slabs may be shared: a guess that spares the attempt.
bool CacheManager::CouldHaveRoom(const BlockCounts& wanted) const {
  const BlockArena& arena = cache_.arena();
  if (prefix_ == nullptr || arena.HasRoom(wanted)) {
    return arena.HasRoom(wanted);
  }
  const std::int64_t per_slab = arena.histories_per_slab();
  const BlockCounts evictable = prefix_->Evictable();
  const std::int64_t free = arena.n_slabs() * per_slab -
                            (arena.in_use().history - evictable.history) -
                            (arena.in_use().window - evictable.window) * per_slab;
  return wanted.history + wanted.window * per_slab <= free;
}

bool CacheManager::MakeRoom(const BlockCounts& wanted, bool only_windows) {
  if (prefix_ == nullptr) {
    return cache_.arena().HasRoom(wanted);
  }
  const std::int64_t before = prefix_->n_evicted();
  const bool made = prefix_->MakeRoom(wanted, only_windows);
  metrics_.CountEvicted(prefix_->n_evicted() - before);
  return made;
}

// Blocks for all that it has to compute before its first token, and for the steps behind it.
BlockCounts CacheManager::NeedsOf(const Sequence& sequence, std::int64_t n_usable) const {
  const std::int64_t lookahead = cache_.shape().lookahead;
  const std::int64_t positions = std::min(sequence.size() + 1, most_positions_) + lookahead;
  return {.history = BlocksOf(positions) - n_usable,
          .window = most_windows_ - cache_.BoundaryWindows(n_usable)};
}

// Pins what it is about to use before making room, which must not take it.
bool CacheManager::TakeSlot(Sequence& sequence, std::int32_t slot, std::int64_t n_usable,
                            std::int64_t headroom) {
  BlockCounts needs = NeedsOf(sequence, n_usable);
  needs.history += headroom;
  if (!CouldHaveRoom(needs)) {
    return false;
  }
  sequence.slot = slot;
  if (n_usable > 0) {
    prefix_->Attach(slot, sequence.keys, n_usable, sequence.chain);
  } else {
    cache_.Release(slot);
  }
  if (!MakeRoom(needs, false)) {
    Release(sequence, false);
    return false;
  }
  sequence.computed = n_usable * kBlockTokens;
  sequence.draft_key_waits = n_usable > 0;
  return true;
}

Admission CacheManager::Admit(Sequence& sequence, std::int32_t slot,
                              std::span<Sequence* const> running, std::int64_t headroom) {
  std::int64_t n_usable = 0;
  if (prefix_ != nullptr) {
    ExtendKeys(root_, sequence.tokens, sequence.keys);
    const auto n = static_cast<std::size_t>(ShareableBlocks(sequence));
    const std::span<const BlockKey> keys = std::span(sequence.keys).first(n);
    const PrefixCache::Match match = prefix_->Find(keys, sequence.tokens);
    n_usable = match.n_usable;
    const auto next = static_cast<std::size_t>(match.n_known);
    for (const Sequence* other : running) {
      const bool will_have = next < n && other->n_left() > 1 && next < other->keys.size() &&
                             next >= other->chain.entries.size() &&
                             other->keys[next] == sequence.keys[next];
      if (will_have && !other->chain.collided) {
        return Admission::kSharesSoon;
      }
    }
    if (disk_ != nullptr && disk_->Start(sequence, keys, match)) {
      return Admission::kLoads;
    }
  }
  if (TakeSlot(sequence, slot, n_usable, headroom) ||
      // Alone, it fits without what is cached, if what is cached is in its way.
      (running.empty() && n_usable > 0 && TakeSlot(sequence, slot, 0, headroom))) {
    return Admission::kAdmitted;
  }
  return Admission::kNoRoom;
}

bool CacheManager::Extend(Sequence& sequence, std::int64_t n_tokens) {
  const auto attempt = [&](StoredWindows windows, bool only_windows) {
    const BlockCounts missing = cache_.Missing(sequence.slot, sequence.computed, n_tokens, windows);
    return MakeRoom(missing, only_windows) &&
           cache_.Extend(sequence.slot, sequence.computed, n_tokens, windows).has_value();
  };
  const bool wants_all = prefix_ != nullptr && n_tokens > 1;
  return (wants_all && attempt(StoredWindows::kAll, true)) || attempt(StoredWindows::kSeen, false);
}

void CacheManager::Commit(Sequence& sequence) {
  if (prefix_ != nullptr) {
    ExtendKeys(root_, sequence.tokens, sequence.keys);
    prefix_->Commit(sequence.slot, sequence.keys, sequence.tokens, sequence.computed / kBlockTokens,
                    sequence.chain);
    if (sequence.computed >= sequence.n_prompt && sequence.n_generated() <= 1) {
      prefix_->MarkEnd(sequence.chain, (sequence.n_prompt - 1) / kBlockTokens);
    }
  }
  cache_.Trim(sequence.slot);
}

void CacheManager::Fork(const Sequence& from, Sequence& to) {
  cache_.Fork(from.slot, to.slot);
  to.computed = from.computed;
  to.draft_key_waits = true;
  to.keys = from.keys;
  if (prefix_ != nullptr) {
    prefix_->Share(from.chain, to.chain);
  }
}

void CacheManager::Release(Sequence& sequence, bool finished) {
  if (sequence.slot < 0) {
    return;
  }
  if (prefix_ != nullptr && finished) {
    prefix_->MarkEnd(sequence.chain, std::ssize(sequence.chain.entries));
    if (disk_ != nullptr) {
      disk_->Save(sequence.chain);
    }
  }
  cache_.Release(sequence.slot);
  if (prefix_ != nullptr) {
    prefix_->Unpin(sequence.chain);
  }
  sequence.slot = -1;
  sequence.computed = 0;
  sequence.drafts.clear();
}

void CacheManager::Report() {
  const BlockArena& arena = cache_.arena();
  const std::int64_t history = cache_.SlabBytes() / arena.histories_per_slab();
  const std::int64_t used =
      arena.in_use().history * history + arena.in_use().window * cache_.SlabBytes();
  std::int64_t idle = 0;
  if (prefix_ != nullptr) {
    idle = prefix_->Evictable().history * history;
  }
  metrics_.SetMemory(arena.n_slabs() * cache_.SlabBytes(), used - idle, idle);
}

bool CacheManager::IsConsistent() const {
  const BlockUses counted = cache_.arena().uses();
  BlockUses uses = {.history = std::vector<std::int32_t>(counted.history.size()),
                    .window = std::vector<std::int32_t>(counted.window.size())};
  cache_.AddUses(uses);
  if (prefix_ != nullptr) {
    prefix_->AddUses(uses);
  }
  if (disk_ != nullptr) {
    disk_->AddUses(uses);
  }
  return uses == counted && (prefix_ == nullptr || prefix_->IsConsistent());
}

}  // namespace fathom
