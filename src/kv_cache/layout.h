// How much memory the cached state of a sequence takes, per kind of layer (spec/model.md 5.8).
//
//   every layer   window keys     [window_slots, 584 bytes for V4: kernels/key_layout.h]
//   ratio 4, 128  compressed rows [context / ratio, the same]
//                 tail            [tail_slots, overlap * head_dim] fp32 values, and as many scores
//   ratio 4       indexer rows    [context / 4, 68 bytes]
//                 tail            [tail_slots, 2 * 128] fp32 values, and as many scores
//
// Slots are what a position may need plus the positions that may be rolled back. Window keys,
// compressed and indexer rows are stored in blocks of kBlockTokens positions (sequence_cache.h).
#ifndef FATHOM_KV_CACHE_LAYOUT_H_
#define FATHOM_KV_CACHE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "kernels/key_layout.h"

namespace fathom {

// Positions of a block: the smallest number that is a multiple of both ratios.
inline constexpr std::int64_t kBlockTokens = 128;

struct CacheShape {
  KeyLayout keys;  // of the window and of compressed rows
  std::int64_t sliding_window = 0;
  std::vector<int> ratios;       // of every layer that caches, draft layers included
  std::int64_t max_context = 0;  // positions per sequence
  std::int64_t n_sequences = 1;
  std::int64_t rollback = 0;  // newest positions that may be overwritten
  // Blocks of all sequences together; 0: as many as all of them can ever need at once.
  std::int64_t history_blocks = 0;
  std::int64_t window_blocks = 0;
};

// Rows and slots of one layer for one sequence; what a layer does not have is 0.
struct LayerLayout {
  std::int64_t window_slots = 0;
  std::int64_t compressed_rows = 0;
  std::int64_t tail_slots = 0;
  std::int64_t tail_width = 0;  // of the main compressor's inputs
  std::int64_t index_rows = 0;
  std::int64_t index_tail_width = 0;
};
LayerLayout LayoutOf(int ratio, const CacheShape& shape);

// Bytes of one sequence in one layer: what does not grow with the context, and what does (at
// shape.max_context).
struct LayerBytes {
  std::int64_t constant = 0;
  std::int64_t growing = 0;
};
LayerBytes BytesOf(const LayerLayout& layout, const CacheShape& shape);

// Over all layers, for one sequence.
LayerBytes BytesPerSequence(const CacheShape& shape);

// Growing bytes per token of context, over all layers.
double BytesPerToken(const CacheShape& shape);

// Where the rows of every layer begin in a block; each begins at a multiple of 64 bytes.
struct BlockLayout {
  struct Offsets {
    std::int64_t keys = 0;
    std::int64_t index = 0;
  };
  std::vector<Offsets> offsets;  // of every layer
  std::int64_t bytes = 0;        // of a block
};
BlockLayout HistoryLayoutOf(const CacheShape& shape);  // compressed and indexer rows
BlockLayout WindowLayoutOf(const CacheShape& shape);   // window keys

// Window blocks that a sequence uses at most: those that it may still read when a step begins, and
// those that the step leaves behind.
std::int64_t MostWindowBlocks(const CacheShape& shape);

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_LAYOUT_H_
