// The caches of all sequences: what a row may be stored in, that no two rows share memory, and that
// the blocks a sequence has are those it needs.
#include "kv_cache/sequence_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/testing/remote_backend.h"

namespace fathom::kv_cache {
namespace {

struct Extent {
  std::uintptr_t begin;
  std::int64_t bytes;
};

void AddExtent(const void* data, std::int64_t bytes, std::vector<Extent>& extents) {
  if (data != nullptr && bytes > 0) {
    extents.push_back({reinterpret_cast<std::uintptr_t>(data), bytes});
  }
}

void AddRows(const BlockRows& rows, std::int64_t n_sequences, std::vector<Extent>& extents) {
  if (rows.row_bytes == 0) {
    return;
  }
  for (std::int32_t sequence = 0; sequence < n_sequences; ++sequence) {
    for (std::int64_t row = 0; row < rows.Capacity(); ++row) {
      AddExtent(rows.Row(sequence, row), rows.row_bytes, extents);
    }
  }
}

// All rows that have memory, by ascending address.
std::vector<Extent> Extents(SequenceCache& cache, const CacheShape& shape) {
  std::vector<Extent> extents;
  for (std::int64_t i = 0; i < cache.n_layers(); ++i) {
    const LayerCache& layer = cache.Layer(i);
    AddRows(layer.window.rows.blocks, shape.n_sequences, extents);
    for (const CompressorCache* compressor : {&layer.compressor, &layer.indexer}) {
      AddRows(compressor->rows.blocks, shape.n_sequences, extents);
      AddRows(compressor->packed_rows, shape.n_sequences, extents);
      for (const Matrix<float>* tail : {&compressor->tail_values, &compressor->tail_scores}) {
        AddExtent(tail->data, tail->rows * tail->cols * 4, extents);
      }
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return extents;
}

// Small and odd sizes.
std::vector<CacheShape> Shapes() {
  const CacheShape base{.keys = {128, 64}, .sliding_window = 7, .ratios = {0, 4, 128, 4, 128, 0}};
  std::vector<CacheShape> shapes;
  for (const std::int64_t context : {1, 3, 4, 127, 128, 129, 1001}) {
    for (const std::int64_t n_sequences : {1, 2, 5}) {
      for (const std::int64_t window : {7, 128, 300}) {
        shapes.push_back(base);
        shapes.back().max_context = context;
        shapes.back().n_sequences = n_sequences;
        shapes.back().sliding_window = window;
        shapes.back().rollback = context % 3;
      }
    }
  }
  return shapes;
}

// The pools that Create sizes itself hold every sequence at its full context.
TEST(SequenceCache, RowsOfAllSequencesDoNotOverlap) {
  ReferenceBackend backend;
  for (const CacheShape& shape : Shapes()) {
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    for (std::int32_t sequence = 0; sequence < shape.n_sequences; ++sequence) {
      const Status extended = cache->Extend(sequence, 0, shape.max_context);
      ASSERT_TRUE(extended) << extended.error().message;
    }
    const std::vector<Extent> extents = Extents(*cache, shape);
    for (std::size_t i = 1; i < extents.size(); ++i) {
      ASSERT_GE(extents[i].begin,
                extents[i - 1].begin + static_cast<std::uintptr_t>(extents[i - 1].bytes));
    }
  }
}

TEST(SequenceCache, FullBytesAreWhatCreateAllocates) {
  ReferenceBackend backend;
  for (CacheShape shape : Shapes()) {
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    EXPECT_EQ(SequenceCache::FullBytes(shape), cache->bytes());
    shape.memory_bytes = 1;  // does not matter
    EXPECT_EQ(SequenceCache::FullBytes(shape), cache->bytes());
  }
}

// The engine makes room for a step, window blocks for others included, and then the model for what
// it needs itself.
TEST(SequenceCache, RoomThatNoStepHasUsedStays) {
  ReferenceBackend backend;
  Result<SequenceCache> cache = SequenceCache::Create(backend, {.keys = {128, 64},
                                                                .sliding_window = 7,
                                                                .ratios = {0, 4},
                                                                .max_context = 600,
                                                                .memory_bytes = 1 << 22});
  ASSERT_TRUE(cache) << cache.error().message;
  ASSERT_TRUE(cache->Extend(0, 0, 500, StoredWindows::kAll));
  const BlockCounts taken = cache->arena().in_use();
  EXPECT_EQ(taken, (BlockCounts{.history = 4, .window = 4}));
  ASSERT_TRUE(cache->Extend(0, 0, 500));
  EXPECT_EQ(cache->arena().in_use(), taken);
  EXPECT_NE(cache->FindBlock(BlockKind::kWindow, 0, 0), kNoBlock);
  cache->MarkComputed(0, 500);
  // A new start after a step gives everything back.
  ASSERT_TRUE(cache->Extend(0, 0, 100));
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{.history = 1, .window = 1}));
}

// Compares with BytesPerSequence, the specification's formula, and blocks.
TEST(SequenceCache, AllocatesTheMemoryItIsGiven) {
  ReferenceBackend backend;
  for (CacheShape shape : Shapes()) {
    const LayerBytes bytes = BytesPerSequence(shape);
    const std::int64_t window_keys =
        std::ssize(shape.ratios) * (shape.sliding_window + shape.rollback) * KeyBytes(shape.keys);
    const std::int64_t tails = shape.n_sequences * (bytes.constant - window_keys);
    shape.memory_bytes = tails + 30 * MakeWindowLayout(shape).bytes;
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    EXPECT_LE(cache->bytes(), shape.memory_bytes);
    EXPECT_GT(cache->bytes() + cache->SlabBytes() + 64 * 4 * std::ssize(shape.ratios),
              shape.memory_bytes);
    EXPECT_EQ(cache->BlockBytes(BlockKind::kHistory), MakeHistoryLayout(shape).bytes);
    shape.memory_bytes = tails + 2 * MakeWindowLayout(shape).bytes;
    const Result<SequenceCache> too_small = SequenceCache::Create(backend, shape);
    ASSERT_FALSE(too_small);
    EXPECT_EQ(too_small.error().code, ErrorCode::kOutOfMemory);
  }
}

// The position at which every layer's rows are seen by a query, and stored by a step, must have
// blocks: random steps with rollbacks, restarts and releases.
class SequenceWalk {
 public:
  SequenceWalk(SequenceCache& cache, const CacheShape& shape, std::uint32_t seed)
      : cache_(cache), shape_(shape), random_(seed), states_(Size(shape.n_sequences)) {}

  void Step() {
    const auto sequence = static_cast<std::int32_t>(Below(shape_.n_sequences));
    State& state = states_[Size(sequence)];
    if (Below(40) == 0) {
      cache_.Release(sequence);
      state = {};
      return;
    }
    std::int64_t first = Below(60) == 0 ? 0 : state.stands;
    if (first > 0 && Below(4) == 0) {
      first = std::max(state.newest - shape_.rollback, std::int64_t{0});
      first = std::min(first, state.stands);
    }
    const std::int64_t n = std::min(1 + Below(Below(3) == 0 ? 400 : 5), shape_.max_context - first);
    const BlockCounts before = cache_.arena().in_use();
    const BlockCounts missing = cache_.Missing(sequence, first, n, StoredWindows::kSeen);
    const Status extended = cache_.Extend(sequence, first, n);
    ASSERT_TRUE(extended) << extended.error().message;
    if (first > 0) {
      ASSERT_LE(cache_.arena().in_use().history, before.history + missing.history);
      ASSERT_LE(cache_.arena().in_use().window, before.window + missing.window);
    }
    ExpectSeen(sequence, first, n);
    cache_.MarkComputed(sequence, first + n);
    ASSERT_EQ(cache_.next_position(sequence), first + n);
    state.newest = first == 0 ? n : std::max(state.newest, first + n);
    state.stands = first + n;
    ExpectCounts();
  }

 private:
  struct State {
    std::int64_t stands = 0;
    std::int64_t newest = 0;
  };
  static std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::int64_t Below(std::int64_t n) { return static_cast<std::int64_t>(random_() % Size(n)); }

  void ExpectSeen(std::int32_t sequence, std::int64_t first, std::int64_t n) {
    for (std::int64_t i = 0; i < cache_.n_layers(); ++i) {
      const LayerCache& layer = cache_.Layer(i);
      const std::int64_t end = first + n;
      for (std::int64_t p = std::max<std::int64_t>(0, first - shape_.sliding_window + 1); p < first;
           ++p) {
        ASSERT_NE(layer.window.rows.Row(sequence, p), nullptr) << p << " before " << first;
      }
      for (std::int64_t p = std::max(first, end - shape_.sliding_window); p < end; ++p) {
        ASSERT_NE(layer.window.rows.Row(sequence, p), nullptr) << p << " of " << first << " " << n;
      }
      for (std::int64_t row = 0; layer.ratio != 0 && row < end / layer.ratio; ++row) {
        ASSERT_NE(layer.compressor.rows.Row(sequence, row), nullptr);
      }
    }
  }

  // No block is lost: those in use are those in tables.
  void ExpectCounts() {
    std::int64_t history = 0;
    std::int64_t window = 0;
    const LayerCache& layer = cache_.Layer(1);
    for (std::int32_t sequence = 0; sequence < shape_.n_sequences; ++sequence) {
      for (std::int64_t p = 0; p < shape_.max_context; p += kBlockTokens) {
        window += layer.window.rows.Row(sequence, p) != nullptr;
        history += layer.compressor.rows.Row(sequence, p / layer.ratio) != nullptr;
      }
    }
    ASSERT_EQ(cache_.arena().in_use(), (BlockCounts{history, window}));
  }

  SequenceCache& cache_;
  const CacheShape& shape_;
  std::mt19937 random_;
  std::vector<State> states_;
};

TEST(SequenceCache, ASequenceHasTheBlocksThatItNeeds) {
  ReferenceBackend backend;
  for (const std::int64_t window : {5, 128, 200}) {
    const CacheShape shape{.keys = {64, 64},
                           .sliding_window = window,
                           .ratios = {0, 4, 128},
                           .max_context = 2'000,
                           .n_sequences = 3,
                           .rollback = 8};
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    SequenceWalk walk(*cache, shape, static_cast<std::uint32_t>(window));
    for (int step = 0; step < 1'500 && !::testing::Test::HasFatalFailure(); ++step) {
      walk.Step();
    }
  }
}

TEST(SequenceCache, WithoutFreeBlocksNothingChanges) {
  ReferenceBackend backend;
  CacheShape shape{.keys = {64, 64},
                   .sliding_window = 128,
                   .ratios = {4},
                   .max_context = 100'000,
                   .n_sequences = 2};
  shape.memory_bytes = 1;
  const Result<SequenceCache> nothing = SequenceCache::Create(backend, shape);
  ASSERT_FALSE(nothing);
  shape.memory_bytes = 2 * 8 * 2 * (128 + 256) * 4 + 8 * (MakeWindowLayout(shape).bytes + 9'000);
  Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  std::int64_t stands = 0;
  while (cache->arena().HasRoom(cache->Missing(0, stands, 128, StoredWindows::kAll))) {
    ASSERT_TRUE(cache->Extend(0, stands, 128, StoredWindows::kAll));
    stands += 128;
    cache->MarkComputed(0, stands);
  }
  const BlockCounts before = cache->arena().in_use();
  const Status full = cache->Extend(1, 0, 2'000, StoredWindows::kAll);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(full.error().message.starts_with(
      "positions 0 to 1999 of sequence 1: expected 16 history and 16 window blocks, found "))
      << full.error().message;
  EXPECT_LE(cache->arena().in_use().history, before.history);
  EXPECT_EQ(cache->next_position(0), stands);
  cache->Release(0);
  EXPECT_TRUE(cache->Extend(1, 0, 128));
}

class SequenceCacheBytes : public ::testing::TestWithParam<testing::TestMemory> {
 protected:
  std::unique_ptr<Backend> backend_ = testing::MakeReference(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Memory, SequenceCacheBytes, ::testing::ValuesIn(testing::kTestMemories),
                         [](const auto& memory) { return testing::Name(memory.param); });

// Two sequences whose tables share blocks: what one writes the other does not see.
TEST_P(SequenceCacheBytes, ASharedBlockIsCopiedBeforeItIsWritten) {
  const CacheShape shape{.keys = {64, 64},
                         .sliding_window = 128,
                         .ratios = {0, 4, 128},
                         .max_context = 1'000,
                         .n_sequences = 3,
                         .rollback = 8};
  Result<SequenceCache> cache = SequenceCache::Create(*backend_, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  ASSERT_TRUE(cache->Extend(0, 0, 200));
  cache->MarkComputed(0, 200);
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    backend_->Upload(cache->BlockAddress(kind, cache->FindBlock(kind, 0, 1)),
                     std::vector(static_cast<std::size_t>(cache->BlockBytes(kind)), std::byte{7}));
  }
  cache->Fork(0, 1);
  EXPECT_EQ(cache->next_position(1), 200);
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{2, 2}));
  EXPECT_EQ(cache->Missing(1, 200, 1, StoredWindows::kSeen), (BlockCounts{1, 1}));
  ASSERT_TRUE(cache->Extend(1, 200, 1));
  cache->MarkComputed(1, 201);
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    const std::int32_t old_block = cache->FindBlock(kind, 0, 1);
    const std::int32_t new_block = cache->FindBlock(kind, 1, 1);
    EXPECT_EQ(cache->FindBlock(kind, 0, 0), cache->FindBlock(kind, 1, 0));
    ASSERT_NE(old_block, new_block);
    const auto bytes_of = [&](std::int32_t block) {
      return testing::ReadBack(*backend_, cache->BlockAddress(kind, block),
                               cache->BlockBytes(kind));
    };
    EXPECT_EQ(bytes_of(old_block), bytes_of(new_block));
    EXPECT_EQ(bytes_of(new_block).back(), std::byte{7});
  }
  ASSERT_TRUE(cache->Extend(0, 200, 1));  // alone again: nothing to copy
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{3, 3}));
  cache->Release(0);
  cache->Release(1);
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{0, 0}));
}

// A long step that keeps only what the next one sees writes into the block it begins in all the
// same.
TEST(SequenceCache, ASharedBlockIsCopiedForAStepThatLeavesItBehind) {
  ReferenceBackend backend;
  const CacheShape shape{.keys = {64, 64},
                         .sliding_window = 128,
                         .ratios = {0, 4, 128},
                         .max_context = 1'000,
                         .n_sequences = 2,
                         .rollback = 8};
  Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  ASSERT_TRUE(cache->Extend(0, 0, 100));
  cache->MarkComputed(0, 100);
  cache->Fork(0, 1);
  // Window blocks 3 and 4 for the next step, and the one that it begins in.
  EXPECT_EQ(cache->Missing(0, 100, 500, StoredWindows::kSeen), (BlockCounts{5, 3}));
  ASSERT_TRUE(cache->Extend(0, 100, 500));
  EXPECT_NE(cache->FindBlock(BlockKind::kWindow, 0, 0), cache->FindBlock(BlockKind::kWindow, 1, 0));
  EXPECT_EQ(cache->FindBlock(BlockKind::kWindow, 0, 1), kNoBlock);
  // Alone: nothing to copy.
  EXPECT_EQ(cache->Missing(1, 100, 500, StoredWindows::kSeen), (BlockCounts{4, 2}));
}

TEST_P(SequenceCacheBytes, ASequenceBeginsBehindBlocksOfAnother) {
  const CacheShape shape{.keys = {64, 64},
                         .sliding_window = 128,
                         .ratios = {0, 4, 128},
                         .max_context = 1'000,
                         .n_sequences = 2,
                         .rollback = 8,
                         .stream_bytes = 40};
  Result<SequenceCache> cache = SequenceCache::Create(*backend_, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  ASSERT_TRUE(cache->Extend(0, 0, 300, StoredWindows::kAll));
  std::vector<std::byte> streams(80, std::byte{3});
  std::fill(streams.begin() + 40, streams.end(), std::byte{4});
  const std::unique_ptr<Buffer> buffer = *backend_->Allocate(80, MemoryKind::kDevice);
  backend_->Upload(buffer->address(), streams);
  cache->KeepStreams(
      std::vector<KeptStream>{{0, 255, buffer->address()}, {0, 299, buffer->address() + 40}});
  cache->MarkComputed(0, 300);
  const std::vector<std::int32_t> history = {cache->FindBlock(BlockKind::kHistory, 0, 0),
                                             cache->FindBlock(BlockKind::kHistory, 0, 1)};
  const std::vector<std::int32_t> windows = {cache->FindBlock(BlockKind::kWindow, 0, 1)};
  EXPECT_EQ(cache->BoundaryWindows(2), 1);
  cache->Attach(1, history, windows);
  EXPECT_EQ(cache->next_position(1), 256);
  EXPECT_EQ(cache->earliest_next(1), 256);
  EXPECT_EQ(testing::ReadBack(*backend_, cache->Stream(1), 40),
            std::vector<std::byte>(40, std::byte{3}));
  EXPECT_EQ(testing::ReadBack(*backend_, cache->Stream(0), 1).front(), std::byte{4});
  EXPECT_EQ(cache->Missing(1, 256, 10, StoredWindows::kSeen), (BlockCounts{1, 1}));
  ASSERT_TRUE(cache->Extend(1, 256, 10));
  cache->Release(0);
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{3, 2}));
  cache->Release(1);
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{0, 0}));
}

// Model::Forward extends again what its caller has extended to store more.
TEST(SequenceCache, ASecondExtendKeepsTheBlocksOfTheFirst) {
  ReferenceBackend backend;
  const CacheShape shape{.keys = {64, 64},
                         .sliding_window = 128,
                         .ratios = {0, 4, 128},
                         .max_context = 1'000,
                         .n_sequences = 1,
                         .rollback = 8};
  Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  for (const std::int64_t first : {0, 400}) {
    ASSERT_TRUE(cache->Extend(0, first, 400, StoredWindows::kAll));
    ASSERT_TRUE(cache->Extend(0, first, 400));
    for (std::int64_t i = first / kBlockTokens; i < BlockCount(first + 400); ++i) {
      EXPECT_NE(cache->FindBlock(BlockKind::kWindow, 0, i), kNoBlock) << i;
    }
    cache->MarkComputed(0, first + 400);
  }
  ASSERT_TRUE(cache->Extend(0, 0, 10));  // anew
  EXPECT_EQ(cache->arena().in_use(), (BlockCounts{1, 1}));
}

// A long step that begins behind another's blocks: the key that the draft head stores there first
// is read by the step, though none of its window blocks but the last are kept.
TEST(SequenceCache, AStepHasTheBlockOfTheDraftKeyBeforeIt) {
  ReferenceBackend backend;
  const CacheShape shape{.keys = {64, 64},
                         .sliding_window = 128,
                         .ratios = {4, 0},
                         .max_context = 2'000,
                         .n_sequences = 2,
                         .rollback = 8,
                         .n_draft_layers = 1,
                         .lookahead = 8,
                         .stream_bytes = 8};
  Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  ASSERT_TRUE(cache->Extend(0, 0, 128));
  cache->MarkComputed(0, 128);
  const std::int32_t history[] = {cache->FindBlock(BlockKind::kHistory, 0, 0)};
  const std::int32_t windows[] = {cache->FindBlock(BlockKind::kWindow, 0, 0)};
  cache->Attach(1, history, windows);
  ASSERT_TRUE(cache->Extend(1, 128, 1'000, StoredWindows::kSeen));
  EXPECT_NE(cache->FindBlock(BlockKind::kWindow, 1, 1), kNoBlock);
  EXPECT_EQ(cache->FindBlock(BlockKind::kWindow, 1, 2), kNoBlock);
  EXPECT_EQ(cache->Missing(1, 128, 0, StoredWindows::kSeen), (BlockCounts{}));
}

TEST(SequenceCache, EveryLayerHasWhatItsRatioNeeds) {
  ReferenceBackend backend;
  const CacheShape shape{.keys = {256, 64},
                         .sliding_window = 128,
                         .ratios = {0, 4, 128},
                         .max_context = 1000,
                         .n_sequences = 3,
                         .rollback = 8};
  Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_TRUE(cache) << cache.error().message;
  for (std::int64_t i = 0; i < 3; ++i) {
    const LayerCache& layer = cache->Layer(i);
    EXPECT_EQ(layer.ratio, shape.ratios[static_cast<std::size_t>(i)]);
    EXPECT_EQ(layer.window.rows.blocks.rows_per_block, 128);
    EXPECT_EQ(layer.window.rows.blocks.row_bytes, 192 + 128 + 8);
    EXPECT_EQ(layer.window.rows.layout, (KeyLayout{256, 64}));
  }
  EXPECT_EQ(cache->Layer(0).compressor.rows.blocks.row_bytes, 0);
  EXPECT_EQ(cache->Layer(0).indexer.ratio, 0);

  const CompressorCache& csa = cache->Layer(1).compressor;
  EXPECT_EQ(csa.Capacity(), 8 * 32);
  EXPECT_FALSE(csa.IsPacked());
  EXPECT_EQ(csa.tail_slots, 16);
  EXPECT_EQ(csa.tail_values.cols, 2 * 256);
  const CompressorCache& indexer = cache->Layer(1).indexer;
  EXPECT_EQ(indexer.Capacity(), 8 * 32);
  EXPECT_TRUE(indexer.IsPacked());
  EXPECT_EQ(indexer.packed_rows.row_bytes, 68);
  EXPECT_EQ(indexer.tail_scores.rows, 3 * 16);
  EXPECT_EQ(indexer.tail_scores.cols, 2 * 128);

  const CompressorCache& hca = cache->Layer(2).compressor;
  EXPECT_EQ(hca.Capacity(), 8);
  EXPECT_EQ(hca.tail_slots, 136);
  EXPECT_EQ(hca.tail_values.rows, 3 * 136);
  EXPECT_EQ(hca.tail_values.cols, 256);
  EXPECT_EQ(cache->Layer(2).indexer.ratio, 0);
}

// Nothing is said of how much memory a machine has, but no machine has this much.
TEST(SequenceCache, TooMuchMemoryIsAnErrorThatNamesTheShape) {
  ReferenceBackend backend;
  const CacheShape shape{.keys = {512, 64},
                         .sliding_window = 128,
                         .ratios = {4},
                         .max_context = std::int64_t{1} << 40,
                         .n_sequences = 1 << 10};
  const Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(
      cache.error().message.starts_with("caches of 1024 sequences of 1099511627776 positions: "))
      << cache.error().message;
}

}  // namespace
}  // namespace fathom::kv_cache
