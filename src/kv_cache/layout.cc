#include "kv_cache/layout.h"

#include "kernels/layer_cache.h"

namespace fathom {

LayerLayout LayoutOf(int ratio, const CacheShape& shape) {
  LayerLayout layout;
  layout.window_slots = shape.sliding_window + shape.rollback;
  if (ratio == 0) {
    return layout;
  }
  const CompressorCache compressor{.ratio = ratio};
  layout.compressed_rows = shape.max_context / ratio;
  layout.tail_slots = compressor.Span() + shape.rollback;
  layout.tail_width = compressor.Overlap() * shape.keys.head_dim;
  if (ratio == 4) {
    layout.index_rows = layout.compressed_rows;
    layout.index_tail_width = compressor.Overlap() * kIndexDim;
  }
  return layout;
}

LayerBytes BytesOf(const LayerLayout& layout, const CacheShape& shape) {
  const auto row = KeyBytes(shape.keys);
  const auto tail = layout.tail_slots * 2 * static_cast<std::int64_t>(sizeof(float));
  return {
      .constant = layout.window_slots * row + tail * (layout.tail_width + layout.index_tail_width),
      .growing = layout.compressed_rows * row + layout.index_rows * kPackedIndexBytes,
  };
}

LayerBytes BytesPerSequence(const CacheShape& shape) {
  LayerBytes total;
  for (const int ratio : shape.ratios) {
    const LayerBytes layer = BytesOf(LayoutOf(ratio, shape), shape);
    total.constant += layer.constant;
    total.growing += layer.growing;
  }
  return total;
}

double BytesPerToken(const CacheShape& shape) {
  double bytes = 0.0;
  for (const int ratio : shape.ratios) {
    if (ratio != 0) {
      const auto row = static_cast<double>(KeyBytes(shape.keys));
      bytes += (row + (ratio == 4 ? static_cast<double>(kPackedIndexBytes) : 0.0)) / ratio;
    }
  }
  return bytes;
}

}  // namespace fathom
