// One piece of memory for all sequences: what it holds, and that nothing in it overlaps.
#include "kv_cache/sequence_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/reference/reference_backend.h"

namespace fathom {
namespace {

struct Extent {
  std::uintptr_t begin;
  std::int64_t bytes;
};

template <class T>
void AddExtent(const Matrix<T>& matrix, std::vector<Extent>& extents) {
  const std::int64_t bytes = matrix.rows * matrix.cols * static_cast<std::int64_t>(sizeof(T));
  if (bytes > 0) {
    extents.push_back({reinterpret_cast<std::uintptr_t>(matrix.data), bytes});
  }
}

// All matrices of the cache, by ascending address.
std::vector<Extent> Extents(SequenceCache& cache, const CacheShape& shape) {
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < shape.ratios.size(); ++i) {
    const LayerCache& layer = cache.Layer(static_cast<std::int64_t>(i));
    AddExtent(layer.window.rows.bytes, extents);
    for (const CompressorCache* compressor : {&layer.compressor, &layer.indexer}) {
      AddExtent(compressor->rows.bytes, extents);
      AddExtent(compressor->packed_rows, extents);
      AddExtent(compressor->tail_values, extents);
      AddExtent(compressor->tail_scores, extents);
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return extents;
}

// Small and odd sizes, so that matrices end between the 64-byte borders.
std::vector<CacheShape> Shapes() {
  const CacheShape base{.keys = {128, 64}, .sliding_window = 7, .ratios = {0, 4, 128, 4, 128, 0}};
  std::vector<CacheShape> shapes;
  for (const std::int64_t context : {1, 3, 4, 127, 128, 1001}) {
    for (const std::int64_t n_sequences : {1, 2, 5}) {
      for (const std::int64_t rollback : {0, 1, 8}) {
        shapes.push_back(base);
        shapes.back().max_context = context;
        shapes.back().n_sequences = n_sequences;
        shapes.back().rollback = rollback;
      }
    }
  }
  return shapes;
}

TEST(SequenceCache, AllocatesWhatTheLayoutSaysUpToAlignment) {
  ReferenceBackend backend;
  for (const CacheShape& shape : Shapes()) {
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    const LayerBytes bytes = BytesPerSequence(shape);
    const std::int64_t exact = shape.n_sequences * (bytes.constant + bytes.growing);
    const auto extents = Extents(*cache, shape);
    std::int64_t sum = 0;
    for (const Extent& extent : extents) {
      sum += extent.bytes;
    }
    EXPECT_EQ(sum, exact);
    EXPECT_GE(cache->bytes(), exact);
    EXPECT_LT(cache->bytes(), exact + 64 * static_cast<std::int64_t>(extents.size()));
  }
}

TEST(SequenceCache, MatricesAreAlignedAndDoNotOverlap) {
  ReferenceBackend backend;
  for (const CacheShape& shape : Shapes()) {
    Result<SequenceCache> cache = SequenceCache::Create(backend, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    const std::vector<Extent> extents = Extents(*cache, shape);
    for (std::size_t i = 0; i < extents.size(); ++i) {
      EXPECT_EQ(extents[i].begin % 64, 0u);
      if (i > 0) {
        EXPECT_GE(extents[i].begin,
                  extents[i - 1].begin + static_cast<std::uintptr_t>(extents[i - 1].bytes));
      }
    }
    const std::uintptr_t length = extents.back().begin - extents.front().begin +
                                  static_cast<std::uintptr_t>(extents.back().bytes);
    EXPECT_LE(length, static_cast<std::uintptr_t>(cache->bytes()));
  }
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
    EXPECT_EQ(layer.window.slots, 136);
    EXPECT_EQ(layer.window.rows.bytes.rows, 3 * 136);
    EXPECT_EQ(layer.window.rows.layout, (KeyLayout{256, 64}));
    EXPECT_EQ(layer.window.rows.bytes.cols, 192 + 128 + 8);
  }
  EXPECT_EQ(cache->Layer(0).compressor.rows.bytes.rows, 0);
  EXPECT_EQ(cache->Layer(0).indexer.ratio, 0);

  const CompressorCache& csa = cache->Layer(1).compressor;
  EXPECT_EQ(csa.capacity, 250);
  EXPECT_EQ(csa.rows.bytes.rows, 3 * 250);
  EXPECT_EQ(csa.packed_rows.rows, 0);
  EXPECT_EQ(csa.tail_slots, 16);
  EXPECT_EQ(csa.tail_values.cols, 2 * 256);
  const CompressorCache& indexer = cache->Layer(1).indexer;
  EXPECT_EQ(indexer.capacity, 250);
  EXPECT_EQ(indexer.rows.bytes.rows, 0);
  EXPECT_EQ(indexer.packed_rows.rows, 3 * 250);
  EXPECT_EQ(indexer.packed_rows.cols, 68);
  EXPECT_EQ(indexer.tail_scores.rows, 3 * 16);
  EXPECT_EQ(indexer.tail_scores.cols, 2 * 128);

  const CompressorCache& hca = cache->Layer(2).compressor;
  EXPECT_EQ(hca.capacity, 7);
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
}  // namespace fathom
