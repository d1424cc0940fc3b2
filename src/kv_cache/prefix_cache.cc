#include "kv_cache/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::kv_cache {
namespace {

std::span<const Token> BlockTokens(std::span<const Token> tokens, std::int64_t block) {
  return tokens.subspan(static_cast<std::size_t>(block * kBlockTokens),
                        static_cast<std::size_t>(kBlockTokens));
}

}  // namespace

void ExtendKeys(const BlockKey& root, std::span<const Token> tokens, std::vector<BlockKey>& keys) {
  const std::int64_t n_blocks = std::ssize(tokens) / kBlockTokens;
  for (std::int64_t block = std::ssize(keys); block < n_blocks; ++block) {
    keys.push_back(NextBlockKey(keys.empty() ? root : keys.back(), BlockTokens(tokens, block)));
  }
}

PrefixCache::PrefixCache(SequenceCache& cache, const BlockKey& root, int data_rank)
    : cache_(cache), root_(root), data_rank_(data_rank) {
  Check(data_rank >= 0 && data_rank < cache.shape().data.n, "a data rank that there is");
}

PrefixCache::~PrefixCache() {
  for (const Entry& entry : entries_) {
    if (entry.is_free) continue;
    arena().Free(BlockKind::kHistory, entry.history);
    if (entry.window != kNoBlock) {
      arena().Free(BlockKind::kWindow, entry.window);
    }
  }
}

// A block has the same number on a rank that has never computed it.
void PrefixCache::CheckOwner(std::int32_t sequence) const {
  Check(cache_.shape().data.Owner(sequence) == data_rank_,
        "a sequence would read blocks that another data rank computed");
}

std::int32_t PrefixCache::Lookup(const BlockKey& key, std::span<const Token> tokens) const {
  const auto found = index_.find(key);
  if (found == index_.end() || !std::ranges::equal(At(found->second).tokens, tokens)) {
    return LruList::kNone;
  }
  return found->second;
}

PrefixCache::Match PrefixCache::Find(std::span<const BlockKey> keys,
                                     std::span<const Token> tokens) const {
  Match match;
  std::int64_t windows_in_a_row = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::int32_t entry = Lookup(keys[i], BlockTokens(tokens, static_cast<std::int64_t>(i)));
    if (entry == LruList::kNone) break;
    match.n_known += 1;
    windows_in_a_row = At(entry).window == kNoBlock ? 0 : windows_in_a_row + 1;
    if (windows_in_a_row >= cache_.BoundaryWindows(match.n_known)) {
      match.n_usable = match.n_known;
    }
  }
  return match;
}

bool PrefixCache::HasWindow(const BlockKey& key) const {
  const auto found = index_.find(key);
  return found != index_.end() && At(found->second).window != kNoBlock;
}

void PrefixCache::Pin(std::int32_t entry) {
  if (At(entry).pins++ == 0 && idle_.Contains(entry)) {
    idle_.Remove(entry);
    --n_idle_;
  }
}

void PrefixCache::PinNext(const BlockKey& key, PrefixChain& chain) {
  chain.entries.push_back(index_.at(key));
  Pin(chain.entries.back());
}

void PrefixCache::PinKnown(std::span<const BlockKey> keys, PrefixChain& chain) {
  for (const BlockKey& key : keys) {
    PinNext(key, chain);
  }
}

void PrefixCache::TouchWindow(std::int32_t entry) {
  At(entry).window_used = ++clock_;
  (At(entry).is_end ? end_windows_ : middle_windows_).Touch(entry);
}

void PrefixCache::Attach(std::int32_t sequence, std::span<const BlockKey> keys,
                         std::int64_t n_blocks, PrefixChain& chain) {
  Check(chain.entries.empty(), "Attach: a chain that is in use");
  CheckOwner(sequence);
  history_.clear();
  windows_.clear();
  const std::int64_t first_window = n_blocks - cache_.BoundaryWindows(n_blocks);
  for (std::int64_t i = 0; i < n_blocks; ++i) {
    PinNext(keys[static_cast<std::size_t>(i)], chain);
    const std::int32_t entry = chain.entries.back();
    history_.push_back(At(entry).history);
    if (i >= first_window) {
      windows_.push_back(At(entry).window);
    }
  }
  cache_.Attach(sequence, history_, windows_);
  MarkEnd(chain, n_blocks);
}

std::int32_t PrefixCache::NewEntry(const BlockKey& key, std::int32_t parent,
                                   std::span<const Token> tokens) {
  std::int32_t entry = static_cast<std::int32_t>(entries_.size());
  if (free_entries_.empty()) {
    entries_.emplace_back();
  } else {
    entry = free_entries_.back();
    free_entries_.pop_back();
  }
  Entry& made = At(entry);
  made.key = key;
  made.tokens.assign(tokens.begin(), tokens.end());
  made.parent = parent;
  made.is_free = false;
  made.is_end = false;
  if (parent != LruList::kNone) {
    At(parent).n_children += 1;
  }
  index_.emplace(key, entry);
  return entry;
}

void PrefixCache::Commit(std::int32_t sequence, std::span<const BlockKey> keys,
                         std::span<const Token> tokens, std::int64_t n_blocks, PrefixChain& chain) {
  CheckOwner(sequence);
  for (std::int64_t i = std::ssize(chain.entries); i < n_blocks && !chain.collided; ++i) {
    const BlockKey& key = keys[static_cast<std::size_t>(i)];
    const std::span<const Token> block_tokens = BlockTokens(tokens, i);
    std::int32_t entry = Lookup(key, block_tokens);
    if (entry == LruList::kNone && index_.contains(key)) {
      chain.collided = true;
      return;
    }
    const std::int32_t history = cache_.FindBlock(BlockKind::kHistory, sequence, i);
    const std::int32_t window = cache_.FindBlock(BlockKind::kWindow, sequence, i);
    if (entry == LruList::kNone) {
      const std::int32_t parent = chain.entries.empty() ? LruList::kNone : chain.entries.back();
      entry = NewEntry(key, parent, block_tokens);
      At(entry).history = history;
      arena().Share(BlockKind::kHistory, history);
    } else if (At(entry).history != history) {
      cache_.Replace(BlockKind::kHistory, sequence, i, At(entry).history);
    }
    if (At(entry).window == kNoBlock && window != kNoBlock) {
      At(entry).window = window;
      ++n_windows_;
      arena().Share(BlockKind::kWindow, window);
      TouchWindow(entry);
    } else if (window != kNoBlock && At(entry).window != window) {
      cache_.Replace(BlockKind::kWindow, sequence, i, At(entry).window);
    }
    Pin(entry);
    chain.entries.push_back(entry);
  }
}

void PrefixCache::Insert(const BlockKey& key, const BlockKey& parent, std::span<const Token> tokens,
                         std::int32_t history, std::int32_t window) {
  const auto before = index_.find(parent);
  Check(parent == root_ || before != index_.end(), "Insert: the entry of the block before");
  Check(!index_.contains(key), "Insert: an entry that is not there");
  const std::int32_t parent_entry = parent == root_ ? LruList::kNone : before->second;
  const std::int32_t entry = NewEntry(key, parent_entry, tokens);
  At(entry).history = history;
  if (window != kNoBlock) {
    InsertWindow(key, window);
  }
  // Marks the entries as just used by a sequence: the entries before them must not be older.
  PrefixChain chain;
  for (std::int32_t i = entry; i != LruList::kNone; i = At(i).parent) {
    Pin(i);
    chain.entries.push_back(i);
  }
  std::reverse(chain.entries.begin(), chain.entries.end());
  Unpin(chain);
}

void PrefixCache::InsertWindow(const BlockKey& key, std::int32_t window) {
  const std::int32_t entry = index_.at(key);
  Check(At(entry).window == kNoBlock, "InsertWindow: an entry without a window block");
  At(entry).window = window;
  At(entry).is_end = true;
  ++n_windows_;
  TouchWindow(entry);
}

void PrefixCache::MarkEnd(const PrefixChain& chain, std::int64_t n_blocks) {
  const std::int64_t n = std::min(n_blocks, std::ssize(chain.entries));
  for (std::int64_t i = n - cache_.BoundaryWindows(n); i < n; ++i) {
    const std::int32_t entry = chain.entries[static_cast<std::size_t>(i)];
    if (At(entry).window != kNoBlock) {
      middle_windows_.Remove(entry);
      At(entry).is_end = true;
      TouchWindow(entry);
    }
  }
}

void PrefixCache::Share(const PrefixChain& from, PrefixChain& to) {
  Check(to.entries.empty(), "Share: a chain that is in use");
  for (const std::int32_t entry : from.entries) {
    Pin(entry);
  }
  to = from;
}

// From the last entry to the first, so that a child is never newer than its parent.
void PrefixCache::Unpin(PrefixChain& chain) {
  for (std::size_t i = chain.entries.size(); i-- > 0;) {
    const std::int32_t entry = chain.entries[i];
    if (--At(entry).pins == 0) {
      At(entry).history_used = ++clock_;
      idle_.Touch(entry);
      ++n_idle_;
    }
  }
  chain.entries.clear();
  chain.collided = false;
}

void PrefixCache::NotifyBlock(const OnEvicted& visit, std::int32_t entry, BlockKind kind) const {
  const Entry& e = At(entry);
  visit({.data_rank = data_rank_,
         .key = e.key,
         .kind = kind,
         .parent = e.parent == LruList::kNone ? root_ : At(e.parent).key,
         .tokens = e.tokens,
         .block = kind == BlockKind::kHistory ? e.history : e.window});
}

// Window blocks that sequences use stay; there are few of them.
std::int32_t PrefixCache::OldestIdleWindow(const LruList& windows) const {
  std::int32_t entry = windows.oldest();
  while (entry != LruList::kNone && arena().uses(BlockKind::kWindow, At(entry).window) > 1) {
    entry = windows.After(entry);
  }
  return entry;
}

void PrefixCache::EvictWindow(std::int32_t entry) {
  Entry& e = At(entry);
  if (e.is_end && on_evicted_) {
    NotifyBlock(on_evicted_, entry, BlockKind::kWindow);
  }
  arena().Free(BlockKind::kWindow, e.window);
  e.window = kNoBlock;
  --n_windows_;
  e.is_end = false;
  middle_windows_.Remove(entry);
  end_windows_.Remove(entry);
  ++n_evicted_;
}

void PrefixCache::EvictEntry(std::int32_t entry) {
  Entry& e = At(entry);
  Check(e.n_children == 0 && e.pins == 0, "evicting an entry that something stands behind");
  if (e.window != kNoBlock) {
    EvictWindow(entry);
  }
  if (on_evicted_) {
    NotifyBlock(on_evicted_, entry, BlockKind::kHistory);
  }
  arena().Free(BlockKind::kHistory, e.history);
  e.history = kNoBlock;
  e.is_free = true;
  idle_.Remove(entry);
  --n_idle_;
  index_.erase(e.key);
  if (e.parent != LruList::kNone) {
    At(e.parent).n_children -= 1;
  }
  free_entries_.push_back(entry);
  ++n_evicted_;
}

bool PrefixCache::EvictOne(bool only_windows) {
  const std::int32_t middle = OldestIdleWindow(middle_windows_);
  if (middle != LruList::kNone || only_windows) {
    if (middle != LruList::kNone) {
      EvictWindow(middle);
    }
    return middle != LruList::kNone;
  }
  const std::int32_t window = OldestIdleWindow(end_windows_);
  const std::int32_t entry = idle_.oldest();
  if (window != LruList::kNone &&
      (entry == LruList::kNone || At(window).window_used < At(entry).history_used)) {
    EvictWindow(window);
    return true;
  }
  if (entry == LruList::kNone) return false;
  EvictEntry(entry);
  return true;
}

bool PrefixCache::MakeRoom(const BlockCounts& wanted, bool only_windows) {
  while (!arena().HasRoom(wanted)) {
    if (!EvictOne(only_windows)) return false;
  }
  return true;
}

void PrefixCache::Clear() {
  while (idle_.oldest() != LruList::kNone) EvictEntry(idle_.oldest());
}

void PrefixCache::NotifyEntry(const OnEvicted& visit, std::int32_t entry) const {
  NotifyBlock(visit, entry, BlockKind::kHistory);
  if (At(entry).window != kNoBlock && At(entry).is_end) {
    NotifyBlock(visit, entry, BlockKind::kWindow);
  }
}

void PrefixCache::ForEach(const PrefixChain& chain, const OnEvicted& visit) const {
  for (std::size_t i = chain.entries.size(); i-- > 0;) {
    NotifyEntry(visit, chain.entries[i]);
  }
}

void PrefixCache::ForEachIdle(const OnEvicted& visit) const {
  for (std::int32_t i = idle_.oldest(); i != LruList::kNone; i = idle_.After(i)) {
    NotifyEntry(visit, i);
  }
}

void PrefixCache::AddUses(BlockUses& uses) const {
  for (const Entry& entry : entries_) {
    if (!entry.is_free) {
      uses.history[static_cast<std::size_t>(entry.history)] += 1;
      if (entry.window != kNoBlock) {
        uses.window[static_cast<std::size_t>(entry.window)] += 1;
      }
    }
  }
}

bool PrefixCache::IsConsistent() const {
  std::vector<std::int32_t> children(entries_.size());
  std::size_t n_used = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const auto id = static_cast<std::int32_t>(i);
    if (entry.is_free) {
      if (idle_.Contains(id) || middle_windows_.Contains(id) || end_windows_.Contains(id)) {
        return false;
      }
      continue;
    }
    ++n_used;
    if (entry.parent != LruList::kNone) {
      children[static_cast<std::size_t>(entry.parent)] += 1;
      if (At(entry.parent).is_free || At(entry.parent).pins < entry.pins) return false;
    }
    const bool has_window = entry.window != kNoBlock;
    const auto found = index_.find(entry.key);
    if (found == index_.end() || found->second != id || entry.history == kNoBlock ||
        idle_.Contains(id) != (entry.pins == 0) ||
        middle_windows_.Contains(id) != (has_window && !entry.is_end) ||
        end_windows_.Contains(id) != (has_window && entry.is_end)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].is_free && entries_[i].n_children != children[i]) return false;
  }
  return n_used == index_.size();
}

}  // namespace fathom::kv_cache
