// SequenceCache: the cached state of the sequences that run, in blocks of 128 positions.
//
//   history blocks  the compressed and indexer rows of 128 positions, of all layers: kept as long
//   as
//                   the sequence
//   window blocks   the window keys of 128 positions, of all layers: given back when no query can
//                   see them any more
//   tails           the inputs of unfinished compressed rows: a fixed piece per sequence
//
// All layers grow in lockstep, so that one table per sequence and kind of block serves them all.
#ifndef FATHOM_KV_CACHE_SEQUENCE_CACHE_H_
#define FATHOM_KV_CACHE_SEQUENCE_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/layer_cache.h"
#include "kv_cache/block_pool.h"
#include "kv_cache/layout.h"

namespace fathom {

// Owns the memory; hands out one LayerCache per layer of the shape, which stay valid and see the
// changes of the tables. Nothing is ever cleared: what a query may see follows from its position,
// and every row is written before it becomes visible, so a block is reused as it is. Must not
// outlive the backend. One thread at a time.
class SequenceCache {
 public:
  static Result<SequenceCache> Create(Backend& backend, const CacheShape& shape);

  // Makes room for positions [first, first + n_tokens) of `sequence` (a slot of the shape, within
  // its context): call it before a step that writes them. first = 0 starts the sequence anew;
  // otherwise it continues where the sequence stands, or goes back at most shape.rollback from the
  // newest position it ever had. Error kOutOfMemory, with nothing changed but that a sequence
  // started anew is empty: not enough free blocks.
  Status Extend(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens);
  // Gives the blocks of `sequence` back; it is empty now.
  void Release(std::int32_t sequence);

  LayerCache& Layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  std::int64_t n_layers() const { return static_cast<std::int64_t>(layers_.size()); }
  std::int64_t bytes() const { return bytes_; }
  const BlockPool& history_blocks() const { return history_.pool; }
  const BlockPool& window_blocks() const { return window_.pool; }

 private:
  // The blocks of one kind, and which sequence has which.
  struct Blocks {
    BlockPool pool{0};
    std::vector<std::int32_t> table;  // [sequences, blocks of the context]
    std::unique_ptr<Buffer> memory;
  };

  SequenceCache() = default;
  Status Allocate(Backend& backend, std::int64_t n_history, std::int64_t n_window);
  void MakeViews(const BlockLayout& history, const BlockLayout& window);
  std::int32_t* TableOf(Blocks& blocks, std::int32_t sequence);
  // Of [first, end) of a table: entries without a block; and giving them one.
  std::int64_t CountMissing(Blocks& blocks, std::int32_t sequence, std::int64_t first,
                            std::int64_t end);
  void TakeMissing(Blocks& blocks, std::int32_t sequence, std::int64_t first, std::int64_t end);
  void ReturnBelow(Blocks& blocks, std::int32_t sequence, std::int64_t end);

  CacheShape shape_;
  std::int64_t table_width_ = 0;
  Blocks history_;
  Blocks window_;
  std::unique_ptr<Buffer> tails_;
  std::vector<std::int64_t> newest_;  // per sequence: positions it had at most since its start
  std::vector<LayerCache> layers_;
  std::int64_t bytes_ = 0;
};

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_SEQUENCE_CACHE_H_
