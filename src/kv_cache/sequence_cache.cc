#include "kv_cache/sequence_cache.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "kernels/carver.h"

namespace fathom {
namespace {

constexpr std::int64_t BlocksOf(std::int64_t positions) {
  return (positions + kBlockTokens - 1) / kBlockTokens;
}

void CarveTail(Carver& carver, const CacheShape& shape, std::int64_t slots, std::int64_t width,
               CompressorCache& cache) {
  cache.tail_slots = slots;
  cache.tail_values = carver.Take<float>(shape.n_sequences * slots, width);
  cache.tail_scores = carver.Take<float>(shape.n_sequences * slots, width);
}

// The tails of all layers.
void CarveTails(Carver& carver, const CacheShape& shape, std::vector<LayerCache>& layers) {
  for (LayerCache& layer : layers) {
    const LayerLayout layout = LayoutOf(layer.ratio, shape);
    if (layout.tail_slots > 0) {
      CarveTail(carver, shape, layout.tail_slots, layout.tail_width, layer.compressor);
    }
    if (layout.index_tail_width > 0) {
      CarveTail(carver, shape, layout.tail_slots, layout.index_tail_width, layer.indexer);
    }
  }
}

}  // namespace

Result<SequenceCache> SequenceCache::Create(Backend& backend, const CacheShape& shape) {
  SequenceCache cache;
  cache.shape_ = shape;
  cache.table_width_ = BlocksOf(shape.max_context);
  const auto blocks = [&](std::int64_t wanted, std::int64_t per_sequence) {
    return wanted > 0 ? wanted : shape.n_sequences * per_sequence;
  };
  const std::int64_t n_history = blocks(shape.history_blocks, cache.table_width_);
  const std::int64_t n_window =
      blocks(shape.window_blocks, std::min(cache.table_width_, MostWindowBlocks(shape)));
  if (Status allocated = cache.Allocate(backend, n_history, n_window); !allocated) {
    return MakeError(allocated.error().code, "caches of {} sequences of {} positions: {}",
                     shape.n_sequences, shape.max_context, allocated.error().message);
  }
  return cache;
}

// The memory first: a number of blocks that there is no room for may be any number.
Status SequenceCache::Allocate(Backend& backend, std::int64_t n_history, std::int64_t n_window) {
  for (const int ratio : shape_.ratios) {
    layers_.push_back({.ratio = ratio});
    layers_.back().compressor.ratio = ratio;
    layers_.back().indexer.ratio = ratio == 4 ? ratio : 0;
  }
  Carver measure;
  CarveTails(measure, shape_, layers_);
  const BlockLayout history = HistoryLayoutOf(shape_);
  const BlockLayout window = WindowLayoutOf(shape_);
  const auto allocate = [&](std::int64_t bytes, std::unique_ptr<Buffer>& memory) -> Status {
    Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(bytes);
    if (!buffer) {
      return Unexpected(buffer.error());
    }
    memory = std::move(*buffer);
    bytes_ += bytes;
    return {};
  };
  if (Status allocated = allocate(measure.bytes(), tails_); !allocated) {
    return allocated;
  }
  if (Status allocated = allocate(history.bytes * n_history, history_.memory); !allocated) {
    return allocated;
  }
  if (Status allocated = allocate(window.bytes * n_window, window_.memory); !allocated) {
    return allocated;
  }
  history_.pool = BlockPool(n_history);
  window_.pool = BlockPool(n_window);
  newest_.resize(static_cast<std::size_t>(shape_.n_sequences));
  for (Blocks* blocks : {&history_, &window_}) {
    blocks->table.assign(static_cast<std::size_t>(shape_.n_sequences * table_width_), kNoBlock);
  }
  Carver carver(tails_->bytes());
  CarveTails(carver, shape_, layers_);
  MakeViews(history, window);
  return {};
}

// Where the rows of every layer are. The tables do not move any more.
void SequenceCache::MakeViews(const BlockLayout& history, const BlockLayout& window) {
  const auto rows = [&](Blocks& blocks, const BlockLayout& layout, std::int64_t offset,
                        std::int64_t per_block, std::int64_t row_bytes) {
    return BlockRows{
        .data = reinterpret_cast<std::uint8_t*>(blocks.memory->bytes().data()) + offset,
        .block_stride = layout.bytes,
        .rows_per_block = per_block,
        .row_bytes = row_bytes,
        .table = blocks.table.data(),
        .table_width = table_width_};
  };
  const std::int64_t key_bytes = KeyBytes(shape_.keys);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerCache& layer = layers_[i];
    layer.window.rows = {rows(window_, window, window.offsets[i].keys, kBlockTokens, key_bytes),
                         shape_.keys};
    if (layer.ratio != 0) {
      const std::int64_t per_block = kBlockTokens / layer.ratio;
      layer.compressor.rows = {
          rows(history_, history, history.offsets[i].keys, per_block, key_bytes), shape_.keys};
      if (layer.ratio == 4) {
        layer.indexer.packed_rows =
            rows(history_, history, history.offsets[i].index, per_block, kPackedIndexBytes);
      }
    }
  }
}

std::int32_t* SequenceCache::TableOf(Blocks& blocks, std::int32_t sequence) {
  return blocks.table.data() + sequence * table_width_;
}

std::int64_t SequenceCache::CountMissing(Blocks& blocks, std::int32_t sequence, std::int64_t first,
                                         std::int64_t end) {
  const std::int32_t* table = TableOf(blocks, sequence);
  return std::count(table + first, table + end, kNoBlock);
}

void SequenceCache::TakeMissing(Blocks& blocks, std::int32_t sequence, std::int64_t first,
                                std::int64_t end) {
  for (std::int64_t i = first; i < end; ++i) {
    std::int32_t& entry = TableOf(blocks, sequence)[i];
    if (entry == kNoBlock) {
      entry = blocks.pool.Take().value();
    }
  }
}

void SequenceCache::ReturnBelow(Blocks& blocks, std::int32_t sequence, std::int64_t end) {
  std::int32_t* table = TableOf(blocks, sequence);
  for (std::int64_t i = 0; i < end; ++i) {
    if (table[i] != kNoBlock) {
      blocks.pool.Return(table[i]);
      table[i] = kNoBlock;
    }
  }
}

Status SequenceCache::Extend(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens) {
  const std::int64_t end = first + n_tokens;
  Check(sequence >= 0 && sequence < shape_.n_sequences && first >= 0 && n_tokens >= 0 &&
            end <= shape_.max_context,
        "Extend: a sequence or position out of range");
  if (first == 0) {
    Release(sequence);
  }
  // A query that comes next is at `newest - rollback` at least, and sees the window before it.
  const auto oldest_seen = [&](std::int64_t newest) {
    return std::max<std::int64_t>(newest - shape_.rollback - shape_.sliding_window + 1, 0);
  };
  std::int64_t& newest = newest_[static_cast<std::size_t>(sequence)];
  ReturnBelow(window_, sequence, oldest_seen(newest) / kBlockTokens);
  const std::int64_t after = std::max(newest, end);
  const std::int64_t first_kept = std::max(first, oldest_seen(after)) / kBlockTokens;
  const std::int64_t last = BlocksOf(end);
  const std::int64_t history = CountMissing(history_, sequence, first / kBlockTokens, last);
  const std::int64_t window = CountMissing(window_, sequence, std::min(first_kept, last), last);
  if (history > history_.pool.n_free() || window > window_.pool.n_free()) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "positions {} to {} of sequence {}: expected {} and {} free blocks of history "
                     "and window, found {} and {}",
                     first, end - 1, sequence, history, window, history_.pool.n_free(),
                     window_.pool.n_free());
  }
  TakeMissing(history_, sequence, first / kBlockTokens, last);
  TakeMissing(window_, sequence, first_kept, last);
  newest = after;
  return {};
}

void SequenceCache::Release(std::int32_t sequence) {
  ReturnBelow(history_, sequence, table_width_);
  ReturnBelow(window_, sequence, table_width_);
  newest_[static_cast<std::size_t>(sequence)] = 0;
}

}  // namespace fathom
