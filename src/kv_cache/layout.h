// The memory of a sequence's cached state, by kind of layer (docs/spec/model.md 5.8).
//
//   every layer   window keys     [window_slots, 584 bytes for V4: kernels/key_layout.h]
//   ratio 4, 128  compressed rows [context / ratio, the same]
//                 tail            [tail_slots, overlap * head_dim] fp32 values, and as many scores
//   ratio 4       indexer rows    [context / 4, 68 bytes]; if n ranks divide the rows, each has
//                                 1 / n of the compressed and of the indexer rows
//                 tail            [tail_slots, 2 * 128] fp32 values, and as many scores
//
// Slots hold the positions that a query may need plus the positions that may be rolled back.
// State that grows with the positions is stored in blocks of kBlockTokens positions
// (sequence_cache.h):
//
//   history block  per layer its compressed rows, then its indexer rows
//   window block   per layer its window keys, then the boundary rows of its compressors of ratio 4
//                  (kernels/layer_cache.h); then the hidden streams of the last position
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/integer_math.h"
#include "kernels/key_layout.h"
#include "kernels/layer_cache.h"
#include "kv_cache/data_ranks.h"

namespace fathom::kv_cache {

struct CacheShape {
  KeyLayout keys;  // layout of window keys and of compressed rows
  std::int64_t sliding_window = 0;
  std::vector<int> ratios;  // ratios of all layers that cache, including draft layers
  // With several ranks: the layers for which this rank has memory. The blocks of a sequence follow
  // from all layers, so that the tables of one rank are right for every other.
  std::int64_t first_layer = 0;
  std::int64_t end_layer = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_context = 0;  // positions per sequence
  std::int64_t n_sequences = 1;
  // With tensor ranks that divide the rows of layers of ratio 4: this rank's rows. The number of
  // ranks divides the 32 rows of a block.
  CacheShard rows_of_ratio_4{};
  // With several data ranks: each has memory for its own sequences only, and all have equally much.
  DataRanks data{};
  std::int64_t rollback = 0;  // newest positions that may be overwritten
  // The number of draft layers, the last ones. Their keys depend on the token after their position;
  // see WindowCache::row_of_position_0.
  std::int64_t n_draft_layers = 0;
  // Positions beyond the newest one whose keys draft layers store.
  std::int64_t lookahead = 0;
  // Bytes of the hidden streams of a position, which are stored with the last layer; 0: not stored.
  std::int64_t stream_bytes = 0;
  // Bytes that a drafter keeps for each sequence beside its blocks, with the last layer.
  std::int64_t deferred_bytes = 0;
  // Bytes of all this memory together; 0: as much as all sequences here can ever need at the same
  // time.
  std::int64_t memory_bytes = 0;
  // With several ranks: the smallest slab count (block_arena.h) of all ranks.
  std::int64_t most_slabs = std::numeric_limits<std::int64_t>::max();
};

// Returns the rows of a layer that have memory here.
CacheShard LocalShard(int ratio, const CacheShape& shape);
// Returns the ratios of the layers that have memory here.
std::span<const int> LocalLayers(const CacheShape& shape);
// Returns the slots of the sequences that have memory here.
std::int64_t LocalSlots(const CacheShape& shape);
// Returns stream_bytes and deferred_bytes if they are stored here, else 0.
std::int64_t LocalStreamBytes(const CacheShape& shape);
std::int64_t LocalDeferredBytes(const CacheShape& shape);

// Rows and slots of one layer for one sequence; 0 for everything that the layer does not have.
struct LayerLayout {
  std::int64_t window_slots = 0;
  std::int64_t compressed_rows = 0;
  std::int64_t tail_slots = 0;
  std::int64_t tail_width = 0;  // width of the main compressor's inputs
  std::int64_t index_rows = 0;
  std::int64_t index_tail_width = 0;
};
LayerLayout MakeLayerLayout(int ratio, const CacheShape& shape);

// Bytes of one sequence in one layer: the bytes that do not grow with the context, and the bytes
// that do (at shape.max_context).
struct LayerBytes {
  std::int64_t constant = 0;
  std::int64_t growing = 0;
};
LayerBytes ComputeLayerBytes(const LayerLayout& layout, const CacheShape& shape);

// Returns the sum over all layers here, for one sequence.
LayerBytes BytesPerSequence(const CacheShape& shape);

// Returns the growing bytes per token of context, over all layers here.
double BytesPerToken(const CacheShape& shape);

// Returns the compressed rows that a history block holds for a layer of ratio 4 or 128.
std::int64_t RowsOfBlock(int ratio, const CacheShape& shape);

// The offsets of the rows of every layer here in a block; each begins at a multiple of 64 bytes.
struct BlockLayout {
  struct Offsets {
    std::int64_t keys = 0;   // window keys or compressed rows
    std::int64_t index = 0;  // indexer rows
    std::int64_t boundary = 0;
    std::int64_t index_boundary = 0;
  };
  std::vector<Offsets> offsets;  // one per layer
  std::int64_t stream = 0;       // offset of the hidden streams
  std::int64_t bytes = 0;        // bytes of a block
};
BlockLayout MakeHistoryLayout(const CacheShape& shape);
BlockLayout MakeWindowLayout(const CacheShape& shape);

// Returns the bytes of a boundary row of a compressor of ratio 4 with rows of `width` numbers.
constexpr std::int64_t BoundaryRowBytes(std::int64_t width) {
  return 2 * width * static_cast<std::int64_t>(sizeof(float));
}

constexpr std::int64_t BlockCount(std::int64_t positions) {
  return DivideUp(positions, kBlockTokens);
}

// Returns how many positions before the next one its step may read from window blocks: the window,
// and the inputs of the compressors of ratio 4.
std::int64_t Reach(const CacheShape& shape);

// Returns the most window blocks of a sequence: the blocks that it may still read when a step
// begins, and the blocks that the step adds.
std::int64_t MostWindowBlocks(const CacheShape& shape);

}  // namespace fathom::kv_cache
