// BlockArena: counts the uses of the blocks of one piece of memory.
//
// Blocks have two sizes. The memory is cut into slabs; a slab is one window block, or holds
// histories_per_slab history blocks:
//
//   | window block 0 | h 4 | h 5 | h 6 | h 7 | window block 2 | h 12 | (free) | (free) | h 15 | ...
//
// so that free memory can become either kind, and a block begins at its number times the size of
// its kind.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv_cache/block_key.h"

namespace fathom::kv_cache {

// A number of blocks of each kind.
struct BlockCounts {
  std::int64_t history = 0;
  std::int64_t window = 0;
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
  std::int64_t& Of(BlockKind kind) { return kind == BlockKind::kHistory ? history : window; }
};

// The reference counts of all blocks, counted by their users.
struct BlockUses {
  std::vector<std::int32_t> history;
  std::vector<std::int32_t> window;
  std::vector<std::int32_t>& Of(BlockKind kind) {
    return kind == BlockKind::kHistory ? history : window;
  }
  const std::vector<std::int32_t>& Of(BlockKind kind) const {
    return kind == BlockKind::kHistory ? history : window;
  }
  friend bool operator==(const BlockUses&, const BlockUses&) = default;
};

// Counts uses only; does not own the memory. A block without uses is free. Allocates nothing after
// its construction. One thread at a time.
class BlockArena {
 public:
  // The first history_slabs of the slabs hold history blocks only, so that this many slabs of
  // history blocks can always be allocated, whatever was allocated and freed before. 1 to 64
  // histories per slab.
  BlockArena(std::int64_t n_slabs, std::int64_t histories_per_slab, std::int64_t history_slabs = 0);

  // Returns true if all of `blocks` could be allocated now.
  bool HasRoom(const BlockCounts& blocks) const;
  // Returns a free block, whose use count is now 1; nullopt if none is free.
  std::optional<std::int32_t> Allocate(BlockKind kind);
  // Add and remove one use of a block that is in use; a block without uses is free.
  void Share(BlockKind kind, std::int32_t block);
  void Free(BlockKind kind, std::int32_t block);

  std::int32_t uses(BlockKind kind, std::int32_t block) const {
    return uses_.Of(kind)[static_cast<std::size_t>(block)];
  }
  const BlockUses& uses() const { return uses_; }
  BlockCounts in_use() const { return in_use_; }
  std::int64_t n_slabs() const { return n_slabs_; }
  std::int64_t n_free_slabs() const { return n_free_common_ + n_free_reserved_; }
  std::int64_t histories_per_slab() const { return per_slab_; }

 private:
  std::optional<std::int32_t> AllocateHistory();
  void FreeInSlab(BlockKind kind, std::int32_t block);
  // Sets of slabs as bits. Return the lowest or the highest slab of the set, or -1.
  static std::int64_t Lowest(const std::vector<std::uint64_t>& bits);
  static std::int64_t Highest(const std::vector<std::uint64_t>& bits);

  std::int64_t n_slabs_;
  std::int64_t per_slab_;
  std::int64_t reserved_;  // the first slabs, for history blocks only
  BlockUses uses_;
  std::vector<std::uint64_t> taken_;    // per slab: its history blocks in use, as bits
  std::vector<std::uint64_t> free_;     // slabs without any use
  std::vector<std::uint64_t> partial_;  // slabs with free history blocks and others in use
  std::int64_t n_free_common_ = 0;
  std::int64_t n_free_reserved_ = 0;
  std::int64_t n_free_in_partial_ = 0;  // free history blocks in partial slabs
  BlockCounts in_use_;
};

}  // namespace fathom::kv_cache
