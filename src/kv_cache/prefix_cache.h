// PrefixCache: finds the blocks of texts that were processed before by their tokens.
//
// An entry is a block of 128 tokens, the child of another entry; its key is a hash of the tokens
// from the beginning (block_key.h), and its tokens are compared too. It holds a history block and,
// if there was room, a window block. A sequence may start after any entry that has its window
// block.
//
//   root -- e0 -- e1 -- e2 -- e3          history blocks: all
//                  \                      window blocks: e1, e3, e4
//                   e4 -- e5              -> sequences may begin after e1, e3, e4
//
// Entries that a running sequence uses are pinned. The others are evicted when room is needed:
// first window blocks in the middle of texts, then, least recently used first, window blocks at the
// ends of texts and entries without children.
//
// With several data ranks, each has its own prefix cache, whose blocks only its own sequences may
// use: block numbers differ between ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/tensor.h"
#include "kv_cache/block_key.h"
#include "kv_cache/lru_list.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::kv_cache {

// The entries that a running sequence uses, from the first block on. Must be emptied with Unpin
// before it is destroyed.
struct PrefixChain {
  std::vector<std::int32_t> entries;
  // A block of this sequence has the same key as a block of another text: blocks after it are not
  // cached.
  bool collided = false;
};

// Appends the keys of the whole blocks of `tokens` that `keys` does not have yet. A salted root
// (SaltedRoot) changes only the keys: the first block is still a child of the cache's own root.
void ExtendKeys(const BlockKey& root, std::span<const Token> tokens, std::vector<BlockKey>& keys);

// To be used from one thread, the thread of the SequenceCache, which must outlive it.
class PrefixCache {
 public:
  // Receives a block that is about to be evicted; its bytes are still valid.
  using OnEvicted = std::function<void(const KeptBlock&)>;

  // Creates the cache for the blocks of this data rank.
  PrefixCache(SequenceCache& cache, const BlockKey& root, int data_rank = 0);
  // Frees the blocks of all entries, pinned or not, without reporting them.
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The cached part of a text whose blocks have these keys: the number of blocks, from the first
  // one on, that have an entry, and the number of blocks after which a sequence can start (at most
  // n_known).
  struct Match {
    std::int64_t n_known = 0;
    std::int64_t n_usable = 0;
  };
  Match Find(std::span<const BlockKey> keys, std::span<const Token> tokens) const;
  bool Has(const BlockKey& key) const { return index_.contains(key); }
  bool HasWindow(const BlockKey& key) const;
  const BlockKey& root() const { return root_; }
  int data_rank() const { return data_rank_; }

  // Begins `sequence`, one of the data rank, after its first n_blocks, at most Match::n_usable;
  // pins them in `chain`, which must be empty.
  void Attach(std::int32_t sequence, std::span<const BlockKey> keys, std::int64_t n_blocks,
              PrefixChain& chain);

  // Makes entries of the blocks chain.entries.size() ... n_blocks - 1 of `sequence`, which are
  // complete and will not change, and pins them; the sequence is one of the data rank. Where an
  // entry exists already, the sequence uses its blocks from now on.
  void Commit(std::int32_t sequence, std::span<const BlockKey> keys, std::span<const Token> tokens,
              std::int64_t n_blocks, PrefixChain& chain);

  // Makes an entry of blocks that were stored elsewhere; the caller's use of them becomes the
  // entry's. The entry of the block before must exist. window: a window block or kNoBlock.
  void Insert(const BlockKey& key, const BlockKey& parent, std::span<const Token> tokens,
              std::int32_t history, std::int32_t window);
  // Adds the window block of an entry that has none.
  void InsertWindow(const BlockKey& key, std::int32_t window);

  // Marks that the text ends after block n_blocks - 1 of the chain, or is likely to be continued
  // there: its window blocks are worth more than window blocks in the middle.
  void MarkEnd(const PrefixChain& chain, std::int64_t n_blocks);

  // Pins the entries of `from` in `to`, for a copy of its sequence (SequenceCache::Fork).
  void Share(const PrefixChain& from, PrefixChain& to);
  // Pins existing entries, all of `keys` or one more, so that they are not evicted until Unpin.
  void PinKnown(std::span<const BlockKey> keys, PrefixChain& chain);
  void PinNext(const BlockKey& key, PrefixChain& chain);
  // Unpins the entries: the sequence does not use them any more.
  void Unpin(PrefixChain& chain);

  // Evicts blocks until the arena has room for `wanted`; false if that is impossible. only_windows:
  // evicts only window blocks in the middle of texts.
  bool MakeRoom(const BlockCounts& wanted, bool only_windows);

  // Evicts all entries that are not pinned.
  void Clear();

  // Visits every block of the chain except the window blocks in the middle (to store them), from
  // the last to the first: a tier that evicts the oldest first then keeps beginnings.
  void ForEach(const PrefixChain& chain, const OnEvicted& visit) const;
  // Visits all entries that are not pinned.
  void ForEachIdle(const OnEvicted& visit) const;
  void set_on_evicted(OnEvicted on_evicted) { on_evicted_ = std::move(on_evicted); }

  std::int64_t n_entries() const { return static_cast<std::int64_t>(index_.size()); }
  std::int64_t n_evicted() const { return n_evicted_; }
  // Returns the blocks that MakeRoom could free, in constant time: history blocks exactly, window
  // blocks including blocks in use.
  BlockCounts Evictable() const { return {n_idle_, n_windows_}; }
  // Adds the uses of all entries.
  void AddUses(BlockUses& uses) const;
  // Returns true if the counters agree with a new count; for tests.
  bool IsConsistent() const;

 private:
  struct Entry {
    BlockKey key;
    std::vector<Token> tokens;
    std::int32_t parent = LruList::kNone;
    std::int32_t n_children = 0;
    std::int32_t pins = 0;
    std::int32_t history = kNoBlock;
    std::int32_t window = kNoBlock;
    bool is_end = false;             // MarkEnd
    std::uint64_t window_used = 0;   // time of the last use of the window block
    std::uint64_t history_used = 0;  // time when it was last unpinned
    bool is_free = false;
  };

  Entry& At(std::int32_t i) { return entries_[static_cast<std::size_t>(i)]; }
  const Entry& At(std::int32_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  void CheckOwner(std::int32_t sequence) const;
  BlockArena& arena() const { return cache_.arena(data_rank_); }
  std::int32_t Lookup(const BlockKey& key, std::span<const Token> tokens) const;
  std::int32_t NewEntry(const BlockKey& key, std::int32_t parent, std::span<const Token> tokens);
  void Pin(std::int32_t entry);
  void TouchWindow(std::int32_t entry);
  std::int32_t OldestIdleWindow(const LruList& windows) const;
  void EvictWindow(std::int32_t entry);
  void EvictEntry(std::int32_t entry);
  bool EvictOne(bool only_windows);
  void NotifyBlock(const OnEvicted& visit, std::int32_t entry, BlockKind kind) const;
  void NotifyEntry(const OnEvicted& visit, std::int32_t entry) const;

  SequenceCache& cache_;
  const BlockKey root_;
  const int data_rank_;
  OnEvicted on_evicted_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> free_entries_;
  std::unordered_map<BlockKey, std::int32_t, BlockKeyHash> index_;
  LruList idle_;            // entries that are not pinned; parents are never older than children
  LruList middle_windows_;  // entries with a window block in the middle of a text
  LruList end_windows_;     // entries with a window block at an end
  std::uint64_t clock_ = 0;
  std::int64_t n_evicted_ = 0;
  std::int64_t n_idle_ = 0;
  std::int64_t n_windows_ = 0;
  std::vector<std::int32_t> history_;  // scratch of Attach
  std::vector<std::int32_t> windows_;
};

}  // namespace fathom::kv_cache
