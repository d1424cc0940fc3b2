// SequenceCache: the cached state of the sequences that run, in blocks of 128 positions.
//
//   history blocks  the compressed and indexer rows of 128 positions, of all layers: kept as long
//                   as the sequence
//   window blocks   the window keys of 128 positions, of all layers, and the other state that the
//                   next positions need: freed when no query can see them any more
//   tails           the inputs of unfinished compressed rows: a fixed piece per sequence
//
// All layers grow in lockstep, so that one table per sequence and kind of block serves all layers.
// A block may be in several tables and in the prefix cache; it is then copied before it is written.
// A sequence can start after any block whose window block (and all window blocks that the window
// reaches) is cached: Attach.
//
// With several data ranks (data_ranks.h), each has its own memory with the blocks of its sequences;
// block numbers are valid within a rank only. Every rank tracks the blocks of all ranks, but stores
// only its own bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/layer_cache.h"
#include "kv_cache/block_arena.h"
#include "kv_cache/layout.h"

namespace fathom::kv_cache {

// Selects the window blocks to store in a step that passes several of them: the blocks that the
// next step may see, or all (so that other sequences can start after each).
enum class StoredWindows { kSeen, kAll };

// The positions and blocks of a sequence.
struct SequenceState {
  std::int64_t next_position = 0;  // the next position
  std::int64_t earliest_next = 0;  // the smallest position besides 0 that may come next
  // Blocks in the tables: history [0, end_block), window [first_window, end_block).
  std::int64_t first_window = 0;
  std::int64_t end_block = 0;
  std::int64_t n_starts = 0;  // starts so far: empty, after blocks or as a copy
  friend bool operator==(const SequenceState&, const SequenceState&) = default;
};

// A copy within the memory of a data rank: from block to block, from sequence to sequence, or of
// the hidden streams from a window block to a sequence.
struct CacheCopy {
  enum class What : std::int32_t { kHistory, kWindow, kTails, kStream };
  What what = What::kHistory;
  int data_rank = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

// The hidden streams of a position, in memory of the backend.
struct KeptStream {
  std::int32_t sequence = 0;
  std::int64_t position = 0;  // the newest of the sequence so far, or the last of a block
  const void* stream = nullptr;
};

// Owns the memory; hands out one LayerCache per layer here of the shape, which stay valid. Each
// addresses the sequences of this data rank only, by their own slots. Nothing is ever cleared: the
// position of a query determines the rows that it may see, and every row is written before it
// becomes visible, so a block is reused as it is. Must not outlive the backend. One thread at a
// time.
//
// Rows, tails and streams are in memory of the backend; the host copies them there, and reads none.
// Block tables are in host memory: the backend has a copy, which each step updates
// (TakeTableChanges), or reads the host's tables where it can.
class SequenceCache {
 public:
  static Result<SequenceCache> Create(Backend& backend, const CacheShape& shape);
  // Returns the bytes of the caches of a shape whose memory_bytes is 0: as much as all sequences
  // can need at the same time, whatever they share.
  static std::int64_t FullBytes(const CacheShape& shape);
  struct AllocationBytes {
    std::int64_t tails = 0;
    std::int64_t blocks = 0;
    std::int64_t tables = 0;
    std::int64_t Total() const { return tails + blocks + tables; }
  };
  // Returns the bytes of each allocation that Create would make. Errors: as Create; allocates
  // nothing.
  static Result<AllocationBytes> BytesFor(const CacheShape& shape);
  // Returns the slabs that Create would make. Errors: as Create; allocates nothing.
  static Result<std::int64_t> SlabsFor(const CacheShape& shape);

  // --- One step of a sequence: Extend, run, MarkComputed. ---

  // Makes room for positions [first, first + n_tokens) of `sequence` (a slot of the shape, within
  // its context), and for the rows of draft layers beyond them. first = 0 resets the sequence;
  // otherwise it is at least earliest_next(). A second call before the step ran adds missing blocks
  // and frees nothing. Error kOutOfMemory: not enough free blocks; nothing has changed, except that
  // a reset sequence is empty.
  Status Extend(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                StoredWindows windows = StoredWindows::kSeen);
  // Returns the blocks that Extend would allocate.
  BlockCounts Missing(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                      StoredWindows windows) const;
  // Records that all layers have stored the positions before `end`.
  void MarkComputed(std::int32_t sequence, std::int64_t end);
  // Frees the window blocks that the sequence cannot see any more. Extend does so too.
  void Trim(std::int32_t sequence);
  // Frees all blocks of `sequence`, which is empty afterwards.
  void Release(std::int32_t sequence);

  // The positions of a sequence.
  std::int64_t next_position(std::int32_t sequence) const {
    return FindState(sequence).next_position;
  }
  std::int64_t earliest_next(std::int32_t sequence) const {
    return FindState(sequence).earliest_next;
  }

  // --- Sharing ---

  // Starts `sequence` after these history blocks of its data rank, with the window blocks of the
  // last of them that the window reaches (BoundaryWindows), oldest first. The use count of each
  // block grows by 1.
  void Attach(std::int32_t sequence, std::span<const std::int32_t> history,
              std::span<const std::int32_t> windows);
  // Returns the window blocks that a sequence needs to begin after n_history blocks.
  std::int64_t BoundaryWindows(std::int64_t n_history) const;
  // Starts `to`, of the same data rank, as a copy of `from`: shares all blocks, copies the tails.
  void Fork(std::int32_t from, std::int32_t to);
  // Returns the block of positions [128 i, 128 i + 128) of `sequence`, or kNoBlock.
  std::int32_t FindBlock(BlockKind kind, std::int32_t sequence, std::int64_t i) const;
  // Replaces a block of a sequence by a block of equal contents.
  void Replace(BlockKind kind, std::int32_t sequence, std::int64_t i, std::int32_t block);

  // --- Several ranks: the first decides which blocks its sequences have, the others have the same
  //     blocks in the memory of their layers (engine/ranks/rank_leader.h,
  //     engine/ranks/rank_follower.h). ---

  // Appends all later copies of all data ranks to `notes`, in order; null: stops that.
  void NoteCopies(std::vector<CacheCopy>* notes) { notes_ = notes; }
  const SequenceState& state(std::int32_t sequence) const { return FindState(sequence); }
  // Returns the blocks of a sequence in the order of positions; kNoBlock where there is none.
  std::span<const std::int32_t> Table(BlockKind kind, std::int32_t sequence) const;

  // Copies the state of the first rank. After the first call, this cache allocates and frees no
  // block: the first rank tracks them.
  void Follow(std::int32_t sequence, const SequenceState& state);
  bool follows() const { return follows_; }
  void FollowEntry(BlockKind kind, std::int32_t sequence, std::int64_t i, std::int32_t block);
  void Run(const CacheCopy& copy);

  // --- Memory, of sequences and blocks of this data rank ---

  // Returns the BlockBytes(kind) of a block, in memory of the backend; HostBlock returns an empty
  // span if the host cannot access them.
  std::byte* BlockAddress(BlockKind kind, std::int32_t block) const;
  std::span<std::byte> HostBlock(BlockKind kind, std::int32_t block) const;
  std::int64_t BlockBytes(BlockKind kind) const;  // a slab may be larger
  std::int64_t SlabBytes() const { return slab_bytes_; }
  void KeepStreams(std::span<const KeptStream> streams);
  // Returns the newest stored hidden streams, of position next_position() - 1: stream_bytes of the
  // shape, in memory of the backend.
  const std::byte* Stream(std::int32_t sequence) const;
  // Returns the deferred_bytes of the shape, in memory of the backend; their content is up to the
  // drafter.
  std::byte* Deferred(std::int32_t sequence) const { return deferred_.Row(OwnSlot(sequence)); }

  // Adds the uses of all tables of a data rank's sequences.
  void AddUses(int data_rank, BlockUses& uses) const;

  // Returns the cache of a layer for operations of the backend.
  LayerCache& Layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  // Returns the cache of a layer with the tables of the host: addresses of rows that the host
  // copies to and from.
  LayerCache HostLayer(std::int64_t i) const;
  // Returns the table entries that have changed since the last call, for Backend::BeginStep; none
  // where the backend reads the tables of the host. Valid until the next call.
  std::span<const TableChange> TakeTableChanges();
  Backend& backend() const { return *backend_; }
  std::int64_t n_layers() const { return static_cast<std::int64_t>(layers_.size()); }
  const CacheShape& shape() const { return shape_; }
  std::int64_t bytes() const { return bytes_; }
  // Returns the blocks of a data rank; all ranks have equally many.
  BlockArena& arena(int data_rank) { return arenas_[static_cast<std::size_t>(data_rank)]; }
  const BlockArena& arena(int data_rank) const {
    return arenas_[static_cast<std::size_t>(data_rank)];
  }
  // Returns the blocks of the only data rank.
  BlockArena& arena() { return arena(OnlyRank()); }
  const BlockArena& arena() const { return arena(OnlyRank()); }

 private:
  // The entries of a table from the first that a step writes. Entries before `stored` are written
  // where the sequence has a block, and get no block where it has none.
  struct Range {
    std::int64_t first = 0;
    std::int64_t stored = 0;
    std::int64_t end = 0;
    // True if the draft key of the position before the step is in the step's first block, so that
    // the step reads that block.
    bool holds_draft_key = false;
  };

  struct ArenaSize {
    std::int64_t n_slabs = 0;
    std::int64_t per_slab = 1;
    std::int64_t history_slabs = 0;
  };
  // Creates the cache without memory.
  explicit SequenceCache(const CacheShape& shape);
  std::int64_t TailBytes();
  int OnlyRank() const;
  std::int32_t OwnSlot(std::int32_t sequence) const;
  BlockArena& SequenceArena(std::int32_t sequence) { return arena(shape_.data.Owner(sequence)); }
  const BlockArena& SequenceArena(std::int32_t sequence) const {
    return arena(shape_.data.Owner(sequence));
  }
  // Returns the beginning of the sequence's part of a table: the sequences of a rank are adjacent.
  std::int64_t TableBegin(std::int32_t sequence) const {
    const DataRanks& data = shape_.data;
    return (data.Owner(sequence) * LocalSlots(shape_) + data.OwnSlot(sequence)) * table_width_;
  }
  Status Allocate(Backend& backend);
  Status AllocateTables();
  std::int64_t TableEntries() const;
  Result<ArenaSize> SizeArena(std::int64_t tail_bytes) const;
  void MakeViews();
  const SequenceState& FindState(std::int32_t sequence) const {
    return states_[static_cast<std::size_t>(sequence)];
  }
  SequenceState& FindState(std::int32_t sequence) {
    return states_[static_cast<std::size_t>(sequence)];
  }
  // [data ranks, own slots, table_width]
  std::span<std::int32_t> WholeTable(BlockKind kind) const {
    const std::size_t size = tables_.size() / 2;
    return tables_.subspan(kind == BlockKind::kHistory ? 0 : size, size);
  }
  void SetEntry(BlockKind kind, std::int32_t sequence, std::int64_t i, std::int32_t block);
  Range Written(BlockKind kind, std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                StoredWindows windows) const;
  bool IsMissing(BlockKind kind, std::int32_t sequence, Range range, std::int64_t i) const;
  void AllocateMissing(BlockKind kind, std::int32_t sequence, Range range, std::int64_t copied);
  void FreeBlock(BlockKind kind, std::int32_t sequence, std::int64_t i);
  void ReturnWindows(std::int32_t sequence, std::int64_t end);
  void AddTails(std::int32_t from_slot, std::int32_t to_slot);  // appends to pieces_

  CacheShape shape_;
  BlockLayout history_layout_;
  BlockLayout window_layout_;
  std::int64_t table_width_ = 0;
  std::int64_t history_bytes_ = 0;  // distance between history blocks
  std::int64_t slab_bytes_ = 0;     // distance between window blocks
  std::vector<BlockArena> arenas_;  // by data rank
  // Both tables, history first: of the host, and the copy of the backend. They are the same memory
  // if the host can access the backend's; else tables_ is host_tables_.
  std::span<std::int32_t> tables_;
  std::unique_ptr<Buffer> backend_tables_;
  std::vector<std::int32_t> host_tables_;
  std::vector<TableChange> changes_;
  std::vector<TableChange> taken_changes_;
  std::vector<PieceCopy> pieces_;  // scratch of CopyPieces
  Backend* backend_ = nullptr;
  std::unique_ptr<Buffer> blocks_;
  std::unique_ptr<Buffer> tails_;
  Matrix<std::byte> streams_;   // [own slots, stream_bytes]
  Matrix<std::byte> deferred_;  // [own slots, deferred_bytes]
  std::vector<SequenceState> states_;
  std::vector<LayerCache> layers_;
  std::int64_t bytes_ = 0;
  std::vector<CacheCopy>* notes_ = nullptr;
  bool follows_ = false;
};

}  // namespace fathom::kv_cache
