#include "kv_cache/sequence_cache.h"

#include <span>

#include "kernels/carver.h"

namespace fathom {
namespace {

KeyRows CarveKeys(Carver& carver, const CacheShape& shape, std::int64_t per_sequence) {
  return {
      .bytes = carver.Take<std::uint8_t>(shape.n_sequences * per_sequence, KeyBytes(shape.keys)),
      .layout = shape.keys};
}

CompressorCache CarveCompressor(Carver& carver, int ratio, std::int64_t n_sequences,
                                std::int64_t tail_slots, std::int64_t tail_width) {
  CompressorCache cache{.ratio = ratio};
  cache.tail_slots = tail_slots;
  cache.tail_values = carver.Take<float>(n_sequences * tail_slots, tail_width);
  cache.tail_scores = carver.Take<float>(n_sequences * tail_slots, tail_width);
  return cache;
}

LayerCache CarveLayer(Carver& carver, int ratio, const CacheShape& shape) {
  const LayerLayout layout = LayoutOf(ratio, shape);
  LayerCache layer{.ratio = ratio};
  layer.window.slots = layout.window_slots;
  layer.window.rows = CarveKeys(carver, shape, layout.window_slots);
  if (layout.tail_slots > 0) {
    layer.compressor =
        CarveCompressor(carver, ratio, shape.n_sequences, layout.tail_slots, layout.tail_width);
    layer.compressor.capacity = layout.compressed_rows;
    layer.compressor.rows = CarveKeys(carver, shape, layout.compressed_rows);
  }
  if (layout.index_tail_width > 0) {
    layer.indexer = CarveCompressor(carver, ratio, shape.n_sequences, layout.tail_slots,
                                    layout.index_tail_width);
    layer.indexer.capacity = layout.index_rows;
    layer.indexer.packed_rows =
        carver.Take<std::uint8_t>(shape.n_sequences * layout.index_rows, kPackedIndexBytes);
  }
  return layer;
}

}  // namespace

Result<SequenceCache> SequenceCache::Create(Backend& backend, const CacheShape& shape) {
  Carver measure;
  for (const int ratio : shape.ratios) {
    CarveLayer(measure, ratio, shape);
  }
  SequenceCache cache;
  cache.bytes_ = measure.bytes();
  Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(cache.bytes_);
  if (!buffer) {
    return MakeError(buffer.error().code, "caches of {} sequences of {} positions: {}",
                     shape.n_sequences, shape.max_context, buffer.error().message);
  }
  cache.buffer_ = std::move(*buffer);
  Carver carver(cache.buffer_->bytes());
  for (const int ratio : shape.ratios) {
    cache.layers_.push_back(CarveLayer(carver, ratio, shape));
  }
  return cache;
}

}  // namespace fathom
