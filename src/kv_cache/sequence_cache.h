// SequenceCache: the cached state of the sequences that run, in blocks of 128 positions.
//
//   history blocks  the compressed and indexer rows of 128 positions, of all layers: kept as long
//                   as the sequence
//   window blocks   the window keys of 128 positions, of all layers, and what else the positions
//                   right behind them need: given back when no query can see them any more
//   tails           the inputs of unfinished compressed rows: a fixed piece per sequence
//
// All layers grow in lockstep, so that one table per sequence and kind of block serves all layers.
// A block may be in several tables and in the prefix cache; it is then copied before it is written.
// A sequence can start behind any block whose window block (and those that the window reaches) is
// cached: Attach.
//
// With several data ranks (data_ranks.h), each has its own memory with the blocks of its sequences;
// block numbers are valid within a rank only. Every rank tracks the blocks of all, but has only its
// own bytes.
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

namespace fathom {

// The window blocks that a step which passes several of them stores: those that the next step may
// see, or all (so that others can start behind each).
enum class StoredWindows { kSeen, kAll };

// The positions and blocks of a sequence.
struct SequenceState {
  std::int64_t next_position = 0;  // the next position
  std::int64_t earliest_next = 0;  // the smallest one besides 0 that may come next
  // Blocks in the tables: history [0, end_block), window [first_window, end_block).
  std::int64_t first_window = 0;
  std::int64_t end_block = 0;
  std::int64_t n_starts = 0;  // how often it has begun anew: empty, behind blocks or as a copy
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
// knows the sequences of this data rank alone, by their own slots. Nothing is ever cleared: what a
// query may see follows from its position, and every row is written before it becomes visible, so a
// block is reused as it is. Must not outlive the backend. One thread at a time.
//
// Rows, tails and streams lie in memory of the backend; the host copies them there, and reads none.
// Block tables are the host's: the backend has a copy, which each step updates (TakeTableChanges),
// or reads the host's tables where it can.
class SequenceCache {
 public:
  static Result<SequenceCache> Create(Backend& backend, const CacheShape& shape);
  // The bytes of the caches of a shape whose memory_bytes is 0: as much as all sequences can need
  // at once, whatever they share.
  static std::int64_t FullBytes(const CacheShape& shape);
  struct AllocationBytes {
    std::int64_t tails = 0;
    std::int64_t blocks = 0;
    std::int64_t tables = 0;
    std::int64_t Total() const { return tails + blocks + tables; }
  };
  // The bytes of each allocation that Create would make. Errors: as Create; nothing is allocated.
  static Result<AllocationBytes> BytesFor(const CacheShape& shape);
  // Returns the slabs that Create would make. Errors: as Create; nothing is allocated.
  static Result<std::int64_t> SlabsFor(const CacheShape& shape);

  // --- One step of a sequence: Extend, run, MarkComputed. ---

  // Makes room for positions [first, first + n_tokens) of `sequence` (a slot of the shape, within
  // its context), and for the rows of draft layers beyond. first = 0 resets the sequence; otherwise
  // it is at least earliest_next(). A second call before the step ran adds missing blocks and frees
  // nothing. Error kOutOfMemory: not enough free blocks; nothing has changed, except that a reset
  // sequence is empty.
  Status Extend(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                StoredWindows windows = StoredWindows::kSeen);
  // The blocks that Extend would take.
  BlockCounts Missing(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                      StoredWindows windows) const;
  // All layers have stored the positions before `end`.
  void MarkComputed(std::int32_t sequence, std::int64_t end);
  // Gives back the window blocks that the sequence cannot see any more. Extend does so too.
  void Trim(std::int32_t sequence);
  // Gives all blocks of `sequence` back; it is empty now.
  void Release(std::int32_t sequence);

  // The positions of a sequence.
  std::int64_t next_position(std::int32_t sequence) const {
    return FindState(sequence).next_position;
  }
  std::int64_t earliest_next(std::int32_t sequence) const {
    return FindState(sequence).earliest_next;
  }

  // --- Sharing ---

  // Starts `sequence` behind these history blocks of its data rank, with the window blocks of the
  // last of them that the window reaches (BoundaryWindows), oldest first. Each is used once more.
  void Attach(std::int32_t sequence, std::span<const std::int32_t> history,
              std::span<const std::int32_t> windows);
  // Window blocks that a sequence needs to begin behind n_history blocks.
  std::int64_t BoundaryWindows(std::int64_t n_history) const;
  // Starts `to`, of the same data rank, as a copy of `from`: shares all blocks, copies the tails.
  void Fork(std::int32_t from, std::int32_t to);
  // The block of positions [128 i, 128 i + 128) of `sequence`, or kNoBlock.
  std::int32_t FindBlock(BlockKind kind, std::int32_t sequence, std::int64_t i) const;
  // Puts a block of the same contents in its place.
  void Replace(BlockKind kind, std::int32_t sequence, std::int64_t i, std::int32_t block);

  // --- Several ranks: the first decides which blocks its sequences have, the others have the same
  //     in the memory of their layers (engine/ranks/rank_leader.h, engine/ranks/rank_follower.h).
  //     ---

  // Appends later copies, in order, on whichever data rank, to `notes`; null: stops.
  void NoteCopies(std::vector<CacheCopy>* notes) { notes_ = notes; }
  const SequenceState& state(std::int32_t sequence) const { return FindState(sequence); }
  // The blocks of a sequence in the order of positions; kNoBlock where there is none.
  std::span<const std::int32_t> Table(BlockKind kind, std::int32_t sequence) const;

  // Copies the state of the first rank. After the first call, this cache allocates and frees no
  // block: the first rank tracks them.
  void Follow(std::int32_t sequence, const SequenceState& state);
  bool follows() const { return follows_; }
  void FollowEntry(BlockKind kind, std::int32_t sequence, std::int64_t i, std::int32_t block);
  void Run(const CacheCopy& copy);

  // --- Memory, of sequences and blocks of this data rank ---

  // The BlockBytes(kind) of a block, in memory of the backend; for the host an empty span if it
  // does not reach them.
  std::byte* BlockAddress(BlockKind kind, std::int32_t block) const;
  std::span<std::byte> HostBlock(BlockKind kind, std::int32_t block) const;
  std::int64_t BlockBytes(BlockKind kind) const;  // a slab may be larger
  std::int64_t SlabBytes() const { return slab_bytes_; }
  void KeepStreams(std::span<const KeptStream> streams);
  // The newest hidden streams kept, of position next_position() - 1: stream_bytes of the shape, in
  // memory of the backend.
  const std::byte* Stream(std::int32_t sequence) const;
  // The deferred_bytes of the shape, in memory of the backend: what is there is the drafter's.
  std::byte* Deferred(std::int32_t sequence) const { return deferred_.Row(OwnSlot(sequence)); }

  // Adds the uses of all tables of a data rank's sequences.
  void AddUses(int data_rank, BlockUses& uses) const;

  // For operations of the backend.
  LayerCache& Layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  // With the tables of the host: addresses of rows, for the host to copy to and from.
  LayerCache HostLayer(std::int64_t i) const;
  // Entries of the tables that have changed since the last call, for Backend::BeginStep; none where
  // the backend reads the tables of the host. Valid until the next call.
  std::span<const TableChange> TakeTableChanges();
  Backend& backend() const { return *backend_; }
  std::int64_t n_layers() const { return static_cast<std::int64_t>(layers_.size()); }
  const CacheShape& shape() const { return shape_; }
  std::int64_t bytes() const { return bytes_; }
  // The blocks of a data rank; all ranks have as many.
  BlockArena& arena(int data_rank) { return arenas_[static_cast<std::size_t>(data_rank)]; }
  const BlockArena& arena(int data_rank) const {
    return arenas_[static_cast<std::size_t>(data_rank)];
  }
  // For a single data rank.
  BlockArena& arena() { return arena(OnlyRank()); }
  const BlockArena& arena() const { return arena(OnlyRank()); }

 private:
  // The entries of a table from the first that a step writes. Those before `stored` are written
  // where the sequence has them, and not taken where it does not.
  struct Range {
    std::int64_t first = 0;
    std::int64_t stored = 0;
    std::int64_t end = 0;
    // The draft key of the position before the step is in its first block, which the step reads.
    bool holds_draft_key = false;
  };

  struct ArenaSize {
    std::int64_t n_slabs = 0;
    std::int64_t per_slab = 1;
    std::int64_t history_slabs = 0;
  };
  // Without memory.
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
    return (data.Owner(sequence) * SlotsHere(shape_) + data.OwnSlot(sequence)) * table_width_;
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
  std::int64_t CountMissing(BlockKind kind, std::int32_t sequence, Range range) const;
  void TakeMissing(BlockKind kind, std::int32_t sequence, Range range, std::int64_t copied);
  void GiveBack(BlockKind kind, std::int32_t sequence, std::int64_t i);
  void ReturnWindows(std::int32_t sequence, std::int64_t end);
  void AddTails(std::int32_t from_slot, std::int32_t to_slot);  // to pieces_

  CacheShape shape_;
  BlockLayout history_layout_;
  BlockLayout window_layout_;
  std::int64_t table_width_ = 0;
  std::int64_t history_bytes_ = 0;  // from a history block to the next
  std::int64_t slab_bytes_ = 0;     // and from a window block
  std::vector<BlockArena> arenas_;  // by data rank
  // Both tables, history first: of the host, and the copy of the backend. The same memory if the
  // host reaches the backend's; else host_tables_.
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

}  // namespace fathom
