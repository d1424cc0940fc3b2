#include "kv_cache/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/gigabytes.h"
#include "base/integer_math.h"
#include "kernels/buffer_layout.h"

namespace fathom::kv_cache {
namespace {

void LayOutTail(BufferLayout& memory, const CacheShape& shape, std::int64_t slots,
                std::int64_t width, CompressorCache& cache) {
  cache.tail_slots = slots;
  cache.tail_values = memory.Add<float>(LocalSlots(shape) * slots, width);
  cache.tail_scores = memory.Add<float>(LocalSlots(shape) * slots, width);
}

struct OwnRows {
  Matrix<std::byte> streams;
  Matrix<std::byte> deferred;
};

// Lays out the tails of all layers, and everything else that each sequence owns.
OwnRows LayOutTails(BufferLayout& memory, const CacheShape& shape,
                    std::vector<LayerCache>& layers) {
  for (LayerCache& layer : layers) {
    const LayerLayout layout = MakeLayerLayout(layer.ratio, shape);
    if (layout.tail_slots > 0) {
      LayOutTail(memory, shape, layout.tail_slots, layout.tail_width, layer.compressor);
    }
    if (layout.index_tail_width > 0) {
      LayOutTail(memory, shape, layout.tail_slots, layout.index_tail_width, layer.indexer);
    }
  }
  OwnRows rows;
  rows.streams = memory.Add<std::byte>(LocalSlots(shape), LocalStreamBytes(shape));
  rows.deferred = memory.Add<std::byte>(LocalSlots(shape), LocalDeferredBytes(shape));
  return rows;
}

// Copies `count` rows of slot `from` to slot `to`.
void AddRows(const Matrix<float>& rows, std::int64_t from, std::int64_t to, std::int64_t count,
             std::vector<PieceCopy>& pieces) {
  pieces.push_back({rows.Row(to * count), rows.Row(from * count),
                    count * rows.cols * static_cast<std::int64_t>(sizeof(float))});
}

// Equal on every rank: counts the needs of all layers.
std::int64_t HistoriesPerSlab(const CacheShape& shape) {
  constexpr std::int64_t kMost = 64;
  CacheShape whole = shape;
  whole.first_layer = 0;
  whole.end_layer = std::ssize(shape.ratios);
  const std::int64_t window = MakeWindowLayout(whole).bytes;
  const std::int64_t smallest = RoundUp(DivideUp(window, kMost), 64);
  return DivideUp(window, std::max(MakeHistoryLayout(whole).bytes, smallest));
}

}  // namespace

// A slab is a whole number of history blocks, and a window block fits into it.
SequenceCache::SequenceCache(const CacheShape& shape)
    : shape_(shape),
      history_layout_(MakeHistoryLayout(shape)),
      window_layout_(MakeWindowLayout(shape)),
      table_width_(BlockCount(shape.max_context + shape.lookahead)) {
  const std::int64_t per_slab = HistoriesPerSlab(shape);
  const std::int64_t smallest = RoundUp(DivideUp(window_layout_.bytes, per_slab), 64);
  history_bytes_ = std::max(history_layout_.bytes, smallest);
  slab_bytes_ = per_slab * history_bytes_;
  for (const int ratio : LocalLayers(shape_)) {
    layers_.push_back({.ratio = ratio});
    layers_.back().compressor.ratio = ratio;
    layers_.back().indexer.ratio = ratio == 4 ? ratio : 0;
  }
}

Result<SequenceCache> SequenceCache::Create(Backend& backend, const CacheShape& shape) {
  SequenceCache cache(shape);
  if (Status allocated = cache.Allocate(backend); !allocated) {
    return MakeError(allocated.error().code, "caches of {} sequences of {} positions: {}",
                     shape.n_sequences, shape.max_context, allocated.error().message);
  }
  return cache;
}

std::int64_t SequenceCache::FullBytes(const CacheShape& shape) {
  SequenceCache cache(shape);
  cache.shape_.memory_bytes = 0;
  const std::int64_t tail_bytes = cache.TailBytes();
  return tail_bytes + cache.SizeArena(tail_bytes)->n_slabs * cache.slab_bytes_;
}

Result<SequenceCache::AllocationBytes> SequenceCache::BytesFor(const CacheShape& shape) {
  SequenceCache cache(shape);
  const std::int64_t tail_bytes = cache.TailBytes();
  const Result<ArenaSize> size = cache.SizeArena(tail_bytes);
  if (!size) return Unexpected(size.error());
  return AllocationBytes{
      .tails = tail_bytes,
      .blocks = size->n_slabs * cache.slab_bytes_,
      .tables = cache.TableEntries() * static_cast<std::int64_t>(sizeof(std::int32_t))};
}

std::int64_t SequenceCache::TailBytes() {
  BufferLayout measure;
  LayOutTails(measure, shape_, layers_);
  return measure.bytes();
}

Result<SequenceCache::ArenaSize> SequenceCache::SizeArena(std::int64_t tail_bytes) const {
  ArenaSize size;
  size.per_slab = slab_bytes_ / history_bytes_;
  const std::int64_t most_windows = std::min(table_width_, MostWindowBlocks(shape_));
  if (shape_.memory_bytes == 0) {
    size.history_slabs = DivideUp(LocalSlots(shape_) * table_width_, size.per_slab);
    size.n_slabs = size.history_slabs + LocalSlots(shape_) * most_windows;
    return size;
  }
  size.n_slabs = std::min((shape_.memory_bytes - tail_bytes) / slab_bytes_, shape_.most_slabs);
  if (size.n_slabs < most_windows + 1) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "expected at least {} ({} for what each sequence has of its own, {} slabs of "
                     "{}), found {}",
                     EnoughMegabytes(tail_bytes + (most_windows + 1) * slab_bytes_),
                     InMegabytes(tail_bytes), most_windows + 1, InMegabytes(slab_bytes_),
                     InMegabytes(shape_.memory_bytes));
  }
  return size;
}

int SequenceCache::OnlyRank() const {
  Check(shape_.data.n == 1, "the blocks of one data rank: there are several");
  return 0;
}

std::int32_t SequenceCache::OwnSlot(std::int32_t sequence) const {
  Check(shape_.data.IsOwn(sequence), "memory of a sequence that another data rank has");
  return shape_.data.OwnSlot(sequence);
}

// Allocates the memory first: if that fails, nothing else is sized by the number of blocks, which
// may be absurdly large.
Status SequenceCache::Allocate(Backend& backend) {
  const std::int64_t tail_bytes = TailBytes();
  const Result<ArenaSize> size = SizeArena(tail_bytes);
  if (!size) return Unexpected(size.error());
  backend_ = &backend;
  const auto allocate = [&](std::int64_t bytes, std::unique_ptr<Buffer>& memory) -> Status {
    Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(bytes, MemoryKind::kDevice);
    if (!buffer) return Unexpected(buffer.error());
    memory = std::move(*buffer);
    bytes_ += bytes;
    return {};
  };
  if (Status allocated = allocate(tail_bytes, tails_); !allocated) return allocated;
  if (Status allocated = allocate(size->n_slabs * slab_bytes_, blocks_); !allocated) {
    return allocated;
  }
  const auto n_ranks = static_cast<std::size_t>(shape_.data.n);
  arenas_.assign(n_ranks, BlockArena(size->n_slabs, size->per_slab, size->history_slabs));
  states_.resize(static_cast<std::size_t>(shape_.n_sequences));
  pieces_.reserve(4 * layers_.size() + 2 * states_.size() + 1);  // for tails or streams
  if (Status allocated = AllocateTables(); !allocated) return allocated;
  BufferLayout memory(tails_->address(), tails_->bytes());
  const OwnRows rows = LayOutTails(memory, shape_, layers_);
  streams_ = rows.streams;
  deferred_ = rows.deferred;
  MakeViews();
  return {};
}

std::int64_t SequenceCache::TableEntries() const {
  return 2 * shape_.data.n * LocalSlots(shape_) * table_width_;
}

Status SequenceCache::AllocateTables() {
  const auto n_entries = static_cast<std::size_t>(TableEntries());
  const auto bytes = static_cast<std::int64_t>(n_entries * sizeof(std::int32_t));
  Result<std::unique_ptr<Buffer>> buffer = backend_->Allocate(bytes, MemoryKind::kDevice);
  if (!buffer) return Unexpected(buffer.error());
  backend_tables_ = std::move(*buffer);
  if (const std::span<std::byte> host = backend_tables_->host(); !host.empty()) {
    tables_ = {reinterpret_cast<std::int32_t*>(host.data()), n_entries};
  } else {
    host_tables_.resize(n_entries);
    tables_ = host_tables_;
  }
  std::ranges::fill(tables_, kNoBlock);
  backend_->Upload(backend_tables_->address(), std::as_bytes(tables_));
  return backend_->Synchronize();
}

// Sets the addresses of the rows of every layer. The tables must not move afterwards.
void SequenceCache::MakeViews() {
  auto* memory = reinterpret_cast<std::uint8_t*>(blocks_->address());
  const auto* tables = reinterpret_cast<const std::int32_t*>(backend_tables_->address());
  const auto rows = [&](BlockKind kind, std::int64_t offset, std::int64_t per_block,
                        std::int64_t row_bytes) {
    return BlockRows{.data = memory + offset,
                     .block_stride = kind == BlockKind::kHistory ? history_bytes_ : slab_bytes_,
                     .rows_per_block = per_block,
                     .row_bytes = row_bytes,
                     .table = tables + (WholeTable(kind).data() - tables_.data()) +
                              TableBegin(shape_.data.SequenceIn(0)),
                     .table_width = table_width_};
  };
  const std::int64_t key_bytes = KeyBytes(shape_.keys);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerCache& layer = layers_[i];
    const BlockLayout::Offsets& window = window_layout_.offsets[i];
    const BlockLayout::Offsets& history = history_layout_.offsets[i];
    layer.window.rows = {rows(BlockKind::kWindow, window.keys, kBlockTokens, key_bytes),
                         shape_.keys};
    const std::int64_t index = shape_.first_layer + static_cast<std::int64_t>(i);
    const bool is_draft = std::ssize(shape_.ratios) - index <= shape_.n_draft_layers;
    layer.window.row_of_position_0 = is_draft ? 1 : 0;
    if (layer.ratio != 0) {
      const std::int64_t per_block = RowsOfBlock(layer.ratio, shape_);
      layer.compressor.share = layer.indexer.share = LocalShard(layer.ratio, shape_);
      layer.compressor.rows = {rows(BlockKind::kHistory, history.keys, per_block, key_bytes),
                               shape_.keys};
      if (layer.ratio == 4) {
        layer.indexer.packed_rows =
            rows(BlockKind::kHistory, history.index, per_block, kPackedIndexBytes);
        layer.compressor.boundary_rows = rows(BlockKind::kWindow, window.boundary, layer.ratio,
                                              BoundaryRowBytes(shape_.keys.head_dim));
        layer.indexer.boundary_rows = rows(BlockKind::kWindow, window.index_boundary, layer.ratio,
                                           BoundaryRowBytes(kIndexDim));
      }
    }
  }
}

std::int64_t SequenceCache::BlockBytes(BlockKind kind) const {
  return kind == BlockKind::kHistory ? history_layout_.bytes : window_layout_.bytes;
}

std::byte* SequenceCache::BlockAddress(BlockKind kind, std::int32_t block) const {
  return blocks_->address() + block * (kind == BlockKind::kHistory ? history_bytes_ : slab_bytes_);
}

std::span<std::byte> SequenceCache::HostBlock(BlockKind kind, std::int32_t block) const {
  if (blocks_->host().empty()) return {};
  return {BlockAddress(kind, block), static_cast<std::size_t>(BlockBytes(kind))};
}

LayerCache SequenceCache::HostLayer(std::int64_t i) const {
  LayerCache layer = layers_[static_cast<std::size_t>(i)];
  const auto* tables = reinterpret_cast<const std::int32_t*>(backend_tables_->address());
  for (BlockRows* rows :
       {&layer.window.rows.blocks, &layer.compressor.rows.blocks, &layer.compressor.boundary_rows,
        &layer.indexer.packed_rows, &layer.indexer.boundary_rows}) {
    rows->table = rows->table == nullptr ? nullptr : tables_.data() + (rows->table - tables);
  }
  return layer;
}

std::span<const TableChange> SequenceCache::TakeTableChanges() {
  std::swap(changes_, taken_changes_);
  changes_.clear();
  return taken_changes_;
}

std::span<const std::int32_t> SequenceCache::Table(BlockKind kind, std::int32_t sequence) const {
  return WholeTable(kind).subspan(static_cast<std::size_t>(TableBegin(sequence)),
                                  static_cast<std::size_t>(table_width_));
}

void SequenceCache::SetEntry(BlockKind kind, std::int32_t sequence, std::int64_t i,
                             std::int32_t block) {
  std::int32_t& entry = WholeTable(kind)[static_cast<std::size_t>(TableBegin(sequence) + i)];
  entry = block;
  if (!host_tables_.empty()) {
    auto* copy = reinterpret_cast<std::int32_t*>(backend_tables_->address());
    changes_.push_back({copy + (&entry - tables_.data()), block});
  }
}

std::int32_t SequenceCache::FindBlock(BlockKind kind, std::int32_t sequence, std::int64_t i) const {
  return Table(kind, sequence)[static_cast<std::size_t>(i)];
}

// The next query is at earliest_next or later, and reads the positions before it.
SequenceCache::Range SequenceCache::Written(BlockKind kind, std::int32_t sequence,
                                            std::int64_t first, std::int64_t n_tokens,
                                            StoredWindows windows) const {
  const std::int64_t end = first + n_tokens;
  Range range = {.first = first / kBlockTokens,
                 .stored = first / kBlockTokens,
                 .end = BlockCount(end + shape_.lookahead)};
  if (kind == BlockKind::kWindow && windows == StoredWindows::kSeen) {
    const std::int64_t before = first == 0 ? 0 : FindState(sequence).earliest_next;
    const std::int64_t earliest = std::max(before, end - shape_.rollback);
    const std::int64_t seen = std::max<std::int64_t>(earliest - Reach(shape_), 0);
    range.stored = std::max(range.first, std::min(seen / kBlockTokens, range.end));
  }
  range.holds_draft_key = kind == BlockKind::kWindow && shape_.n_draft_layers > 0 && first > 0;
  return range;
}

bool SequenceCache::IsMissing(BlockKind kind, std::int32_t sequence, Range range,
                              std::int64_t i) const {
  const std::int32_t block = FindBlock(kind, sequence, i);
  if (block != kNoBlock) return SequenceArena(sequence).uses(kind, block) > 1;
  return i >= range.stored || (i == range.first && range.holds_draft_key);
}

BlockCounts SequenceCache::Missing(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                                   StoredWindows windows) const {
  BlockCounts counts;
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    const Range range = Written(kind, sequence, first, n_tokens, windows);
    for (std::int64_t i = range.first; i < range.end; ++i) {
      counts.Of(kind) += IsMissing(kind, sequence, range, i) ? 1 : 0;
    }
  }
  return counts;
}

// Copies the part of a shared block that the step does not write: it begins in block `copied`.
void SequenceCache::AllocateMissing(BlockKind kind, std::int32_t sequence, Range range,
                                    std::int64_t copied) {
  for (std::int64_t i = range.first; i < range.end; ++i) {
    if (!IsMissing(kind, sequence, range, i)) continue;
    Check(!follows_, "a block that the first rank has not taken");
    BlockArena& arena = SequenceArena(sequence);
    const std::int32_t shared = FindBlock(kind, sequence, i);
    const std::int32_t taken = arena.Allocate(kind).value();
    if (shared != kNoBlock) {
      if (i == copied) {
        Run({kind == BlockKind::kHistory ? CacheCopy::What::kHistory : CacheCopy::What::kWindow,
             shape_.data.Owner(sequence), shared, taken});
      }
      arena.Free(kind, shared);
    }
    SetEntry(kind, sequence, i, taken);
  }
}

void SequenceCache::FreeBlock(BlockKind kind, std::int32_t sequence, std::int64_t i) {
  const std::int32_t block = FindBlock(kind, sequence, i);
  if (block == kNoBlock) return;
  if (!follows_) {
    SequenceArena(sequence).Free(kind, block);
  }
  SetEntry(kind, sequence, i, kNoBlock);
}

void SequenceCache::ReturnWindows(std::int32_t sequence, std::int64_t end) {
  SequenceState& state = FindState(sequence);
  for (; state.first_window < std::min(end, state.end_block); ++state.first_window) {
    FreeBlock(BlockKind::kWindow, sequence, state.first_window);
  }
}

void SequenceCache::Trim(std::int32_t sequence) {
  const std::int64_t oldest = FindState(sequence).earliest_next - Reach(shape_);
  ReturnWindows(sequence, std::max<std::int64_t>(oldest, 0) / kBlockTokens);
}

Status SequenceCache::Extend(std::int32_t sequence, std::int64_t first, std::int64_t n_tokens,
                             StoredWindows windows) {
  Check(sequence >= 0 && sequence < shape_.n_sequences && first >= 0 && n_tokens >= 0 &&
            first + n_tokens <= shape_.max_context,
        "Extend: a sequence or position out of range");
  SequenceState& state = FindState(sequence);
  if (first == 0 && state.next_position > 0) {
    Release(sequence);
  }
  Check(first >= state.earliest_next && first <= state.next_position,
        "Extend: a position out of order");
  Trim(sequence);
  const BlockCounts missing = Missing(sequence, first, n_tokens, windows);
  const BlockArena& arena = SequenceArena(sequence);
  if (!arena.HasRoom(missing)) {
    Status full = MakeError(ErrorCode::kOutOfMemory,
                            "positions {} to {} of sequence {}: expected {} history and {} window "
                            "blocks, found {} of {} slabs free",
                            first, first + n_tokens - 1, sequence, missing.history, missing.window,
                            arena.n_free_slabs(), arena.n_slabs());
    if (first == 0) {
      Release(sequence);
    }
    return full;
  }
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    const Range range = Written(kind, sequence, first, n_tokens, windows);
    AllocateMissing(kind, sequence, range, first / kBlockTokens);
    state.end_block = std::max(state.end_block, range.end);
  }
  return {};
}

void SequenceCache::MarkComputed(std::int32_t sequence, std::int64_t end) {
  SequenceState& state = FindState(sequence);
  state.next_position = end;
  state.earliest_next = std::max(state.earliest_next, end - shape_.rollback);
}

void SequenceCache::Release(std::int32_t sequence) {
  SequenceState& state = FindState(sequence);
  ReturnWindows(sequence, state.end_block);
  for (std::int64_t i = 0; i < state.end_block; ++i) {
    FreeBlock(BlockKind::kHistory, sequence, i);
  }
  state = {.n_starts = state.n_starts + 1};
}

std::int64_t SequenceCache::BoundaryWindows(std::int64_t n_history) const {
  return std::min(n_history, BlockCount(Reach(shape_)));
}

void SequenceCache::Attach(std::int32_t sequence, std::span<const std::int32_t> history,
                           std::span<const std::int32_t> windows) {
  const std::int64_t n_blocks = std::ssize(history);
  Check(n_blocks <= table_width_ && std::ssize(windows) == BoundaryWindows(n_blocks),
        "Attach: the blocks that a sequence needs");
  Release(sequence);
  BlockArena& arena = SequenceArena(sequence);
  SequenceState& state = FindState(sequence);
  state.first_window = n_blocks - std::ssize(windows);
  state.end_block = n_blocks;
  for (std::int64_t i = 0; i < n_blocks; ++i) {
    arena.Share(BlockKind::kHistory, history[static_cast<std::size_t>(i)]);
    SetEntry(BlockKind::kHistory, sequence, i, history[static_cast<std::size_t>(i)]);
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    arena.Share(BlockKind::kWindow, windows[i]);
    SetEntry(BlockKind::kWindow, sequence, state.first_window + static_cast<std::int64_t>(i),
             windows[i]);
  }
  state.next_position = state.earliest_next = n_blocks * kBlockTokens;
  if (!windows.empty()) {
    Run({CacheCopy::What::kStream, shape_.data.Owner(sequence), windows.back(), sequence});
  }
}

void SequenceCache::Fork(std::int32_t from, std::int32_t to) {
  Check(from != to, "Fork: a sequence onto itself");
  const int data_rank = shape_.data.Owner(from);
  Check(data_rank == shape_.data.Owner(to), "Fork: a sequence of another data rank");
  Release(to);
  const SequenceState& state = FindState(from);
  const std::int64_t n_starts = FindState(to).n_starts;
  FindState(to) = state;
  FindState(to).n_starts = n_starts;
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    for (std::int64_t i = 0; i < state.end_block; ++i) {
      const std::int32_t block = FindBlock(kind, from, i);
      if (block != kNoBlock) {
        arena(data_rank).Share(kind, block);
        SetEntry(kind, to, i, block);
      }
    }
  }
  Run({CacheCopy::What::kTails, data_rank, from, to});
}

void SequenceCache::Run(const CacheCopy& copy) {
  if (notes_ != nullptr) {
    notes_->push_back(copy);
  }
  if (copy.data_rank != shape_.data.rank) {
    return;  // not in the memory of this rank
  }
  pieces_.clear();
  switch (copy.what) {
    case CacheCopy::What::kHistory:
    case CacheCopy::What::kWindow: {
      const BlockKind kind =
          copy.what == CacheCopy::What::kHistory ? BlockKind::kHistory : BlockKind::kWindow;
      pieces_.push_back(
          {BlockAddress(kind, copy.to), BlockAddress(kind, copy.from), BlockBytes(kind)});
      break;
    }
    case CacheCopy::What::kTails:
      AddTails(OwnSlot(copy.from), OwnSlot(copy.to));
      break;
    case CacheCopy::What::kStream:
      pieces_.push_back({streams_.Row(OwnSlot(copy.to)),
                         BlockAddress(BlockKind::kWindow, copy.from) + window_layout_.stream,
                         streams_.cols});
      break;
  }
  backend_->CopyPieces(pieces_);
}

void SequenceCache::AddTails(std::int32_t from_slot, std::int32_t to_slot) {
  for (const LayerCache& layer : layers_) {
    for (const CompressorCache* compressor : {&layer.compressor, &layer.indexer}) {
      AddRows(compressor->tail_values, from_slot, to_slot, compressor->tail_slots, pieces_);
      AddRows(compressor->tail_scores, from_slot, to_slot, compressor->tail_slots, pieces_);
    }
  }
  pieces_.push_back({streams_.Row(to_slot), streams_.Row(from_slot), streams_.cols});
}

void SequenceCache::Replace(BlockKind kind, std::int32_t sequence, std::int64_t i,
                            std::int32_t block) {
  const std::int32_t replaced = FindBlock(kind, sequence, i);
  Check(replaced != kNoBlock, "Replace: a block that the sequence has");
  SequenceArena(sequence).Share(kind, block);
  SequenceArena(sequence).Free(kind, replaced);
  SetEntry(kind, sequence, i, block);
}

void SequenceCache::AddUses(int data_rank, BlockUses& uses) const {
  const auto n_entries = static_cast<std::size_t>(LocalSlots(shape_) * table_width_);
  const std::size_t first = static_cast<std::size_t>(data_rank) * n_entries;
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    for (const std::int32_t block : WholeTable(kind).subspan(first, n_entries)) {
      if (block != kNoBlock) uses.Of(kind)[static_cast<std::size_t>(block)] += 1;
    }
  }
}

void SequenceCache::KeepStreams(std::span<const KeptStream> streams) {
  pieces_.clear();
  for (const auto& [sequence, position, stream] : streams) {
    pieces_.push_back({streams_.Row(OwnSlot(sequence)), stream, streams_.cols});
    const std::int32_t block = FindBlock(BlockKind::kWindow, sequence, position / kBlockTokens);
    if ((position + 1) % kBlockTokens == 0 && block != kNoBlock) {
      pieces_.push_back(
          {BlockAddress(BlockKind::kWindow, block) + window_layout_.stream, stream, streams_.cols});
    }
  }
  backend_->CopyPieces(pieces_);
}

const std::byte* SequenceCache::Stream(std::int32_t sequence) const {
  return streams_.Row(OwnSlot(sequence));
}

void SequenceCache::Follow(std::int32_t sequence, const SequenceState& state) {
  follows_ = true;
  FindState(sequence) = state;
}

void SequenceCache::FollowEntry(BlockKind kind, std::int32_t sequence, std::int64_t i,
                                std::int32_t block) {
  follows_ = true;
  const BlockArena& arena = SequenceArena(sequence);
  const std::int64_t per_slab = kind == BlockKind::kHistory ? arena.histories_per_slab() : 1;
  Check(block >= kNoBlock && block < arena.n_slabs() * per_slab, "a block that no rank has");
  SetEntry(kind, sequence, i, block);
}

Result<std::int64_t> SequenceCache::SlabsFor(const CacheShape& shape) {
  SequenceCache cache(shape);
  const Result<ArenaSize> size = cache.SizeArena(cache.TailBytes());
  if (!size) return Unexpected(size.error());
  return size->n_slabs;
}

}  // namespace fathom::kv_cache
