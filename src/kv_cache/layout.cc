#include "kv_cache/layout.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::kv_cache {
namespace {

// Appends `bytes` to a block and returns their offset.
std::int64_t Append(BlockLayout& block, std::int64_t bytes) {
  const std::int64_t offset = block.bytes;
  block.bytes += RoundUp(bytes, 64);
  return offset;
}

}  // namespace

CacheShard LocalShard(int ratio, const CacheShape& shape) {
  return ratio == 4 ? shape.rows_of_ratio_4 : CacheShard{};
}

std::span<const int> LocalLayers(const CacheShape& shape) {
  const std::int64_t end = std::min(shape.end_layer, std::ssize(shape.ratios));
  return std::span(shape.ratios)
      .subspan(static_cast<std::size_t>(shape.first_layer),
               static_cast<std::size_t>(end - shape.first_layer));
}

std::int64_t LocalSlots(const CacheShape& shape) { return shape.data.OwnSlots(shape.n_sequences); }

namespace {

bool HasLastLayer(const CacheShape& shape) { return shape.end_layer >= std::ssize(shape.ratios); }

}  // namespace

std::int64_t LocalStreamBytes(const CacheShape& shape) {
  return HasLastLayer(shape) ? shape.stream_bytes : 0;
}

std::int64_t LocalDeferredBytes(const CacheShape& shape) {
  return HasLastLayer(shape) ? shape.deferred_bytes : 0;
}

LayerLayout MakeLayerLayout(int ratio, const CacheShape& shape) {
  LayerLayout layout;
  layout.window_slots = shape.sliding_window + shape.rollback;
  if (ratio == 0) return layout;
  const CompressorCache compressor{.ratio = ratio};
  layout.compressed_rows = DivideUp(shape.max_context / ratio, LocalShard(ratio, shape).n);
  layout.tail_slots = compressor.Span() + shape.rollback;
  layout.tail_width = compressor.Overlap() * shape.keys.head_dim;
  if (ratio == 4) {
    layout.index_rows = layout.compressed_rows;
    layout.index_tail_width = compressor.Overlap() * kIndexDim;
  }
  return layout;
}

LayerBytes ComputeLayerBytes(const LayerLayout& layout, const CacheShape& shape) {
  const auto row = KeyBytes(shape.keys);
  const auto tail = layout.tail_slots * 2 * static_cast<std::int64_t>(sizeof(float));
  return {
      .constant = layout.window_slots * row + tail * (layout.tail_width + layout.index_tail_width),
      .growing = layout.compressed_rows * row + layout.index_rows * kPackedIndexBytes,
  };
}

LayerBytes BytesPerSequence(const CacheShape& shape) {
  LayerBytes total;
  for (const int ratio : LocalLayers(shape)) {
    const LayerBytes layer = ComputeLayerBytes(MakeLayerLayout(ratio, shape), shape);
    total.constant += layer.constant;
    total.growing += layer.growing;
  }
  return total;
}

double BytesPerToken(const CacheShape& shape) {
  double bytes = 0.0;
  for (const int ratio : LocalLayers(shape)) {
    if (ratio != 0) {
      const auto row = static_cast<double>(KeyBytes(shape.keys));
      bytes += (row + (ratio == 4 ? static_cast<double>(kPackedIndexBytes) : 0.0)) /
               (ratio * LocalShard(ratio, shape).n);
    }
  }
  return bytes;
}

std::int64_t RowsOfBlock(int ratio, const CacheShape& shape) {
  const std::int64_t n_rows = kBlockTokens / ratio;
  const int n_ranks = LocalShard(ratio, shape).n;
  Check(n_rows % n_ranks == 0, "the ranks divide the rows of a block");
  return n_rows / n_ranks;
}

BlockLayout MakeHistoryLayout(const CacheShape& shape) {
  BlockLayout block;
  for (const int ratio : LocalLayers(shape)) {
    BlockLayout::Offsets offsets;
    const std::int64_t n_rows = ratio == 0 ? 0 : RowsOfBlock(ratio, shape);
    offsets.keys = Append(block, n_rows * KeyBytes(shape.keys));
    if (ratio == 4) {
      offsets.index = Append(block, n_rows * kPackedIndexBytes);
    }
    block.offsets.push_back(offsets);
  }
  return block;
}

BlockLayout MakeWindowLayout(const CacheShape& shape) {
  BlockLayout block;
  for (const int ratio : LocalLayers(shape)) {
    BlockLayout::Offsets offsets;
    offsets.keys = Append(block, kBlockTokens * KeyBytes(shape.keys));
    if (ratio == 4) {
      offsets.boundary = Append(block, ratio * BoundaryRowBytes(shape.keys.head_dim));
      offsets.index_boundary = Append(block, ratio * BoundaryRowBytes(kIndexDim));
    }
    block.offsets.push_back(offsets);
  }
  block.stream = Append(block, LocalStreamBytes(shape));
  return block;
}

std::int64_t Reach(const CacheShape& shape) {
  constexpr std::int64_t kCompressorSpan = 8;
  return std::max(shape.sliding_window, kCompressorSpan) - 1;
}

std::int64_t MostWindowBlocks(const CacheShape& shape) {
  // n positions in a row occupy (n - 2) / kBlockTokens + 2 blocks at most.
  const std::int64_t kept = Reach(shape) + 1 + shape.rollback + shape.lookahead;
  return 2 * ((kept + kBlockTokens - 2) / kBlockTokens + 1);
}

}  // namespace fathom::kv_cache
