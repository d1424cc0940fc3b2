// How much memory the cached state of a sequence takes, per kind of layer (spec/model.md 5.8).
//
//   every layer   window keys     [window_slots, 584 bytes for V4: kernels/key_layout.h]
//   ratio 4, 128  compressed rows [context / ratio, the same]
//                 tail            [tail_slots, overlap * head_dim] fp32 values, and as many scores
//   ratio 4       indexer rows    [context / 4, 68 bytes]
//                 tail            [tail_slots, 2 * 128] fp32 values, and as many scores
//
// Slots are what a position may need plus the positions that may be rolled back.
#ifndef FATHOM_KV_CACHE_LAYOUT_H_
#define FATHOM_KV_CACHE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "kernels/key_layout.h"

namespace fathom {

struct CacheShape {
  KeyLayout keys;  // of the window and of compressed rows
  std::int64_t sliding_window = 0;
  std::vector<int> ratios;       // of every layer that caches, draft layers included
  std::int64_t max_context = 0;  // positions per sequence
  std::int64_t n_sequences = 1;
  std::int64_t rollback = 0;  // newest positions that may be overwritten
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

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_LAYOUT_H_
