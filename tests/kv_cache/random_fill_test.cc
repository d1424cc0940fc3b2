// The random cache: all that a query may read is written with numbers, and nothing else is touched.
#include "kv_cache/random_fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::kv_cache {
namespace {

constexpr std::int64_t kContext = 700;
constexpr std::int64_t kSequences = 3;
constexpr std::int64_t kTokens = 517;

std::string FilledBytes(const void* data, std::int64_t bytes) {
  return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
}

template <class T>
std::string RowBytes(const Matrix<T>& m, std::int64_t first, std::int64_t count) {
  return FilledBytes(m.Row(first), count * m.cols * static_cast<std::int64_t>(sizeof(T)));
}

// The rows of a sequence from `first` on that have a block.
std::string RowBytes(const BlockRows& rows, std::int32_t sequence, std::int64_t first) {
  std::string all;
  for (std::int64_t row = first; row < rows.Capacity(); ++row) {
    if (rows.Row(sequence, row) != nullptr) {
      all += FilledBytes(rows.Row(sequence, row), rows.row_bytes);
    }
  }
  return all;
}

class RandomFillTest : public ::testing::TestWithParam<int> {
 protected:
  RandomFillTest() {
    const CacheShape shape = {
        .keys = {160, 64},  // one and a half groups and the rotated dimensions
        .sliding_window = 10,
        .ratios = {GetParam()},
        .max_context = kContext,
        .n_sequences = kSequences,
        .rollback = 3};
    cache_.emplace(SequenceCache::Create(backend_, shape).value());
    for (std::int32_t sequence = 0; sequence < kSequences; ++sequence) {
      EXPECT_TRUE(cache_->Extend(sequence, 0, kContext));
    }
  }
  LayerCache& layer() { return cache_->Layer(0); }

  // Everything the layer holds for one sequence.
  std::string ReadBytes(std::int32_t sequence) {
    const LayerCache& l = layer();
    std::string all = RowBytes(l.window.rows.blocks, sequence, 0);
    for (const CompressorCache* c : {&l.compressor, &l.indexer}) {
      if (c->ratio != 0) {
        all += RowBytes(c->tail_values, sequence * c->tail_slots, c->tail_slots);
        all += RowBytes(c->tail_scores, sequence * c->tail_slots, c->tail_slots);
        all += RowBytes(c->IsPacked() ? c->packed_rows : c->rows.blocks, sequence, 0);
      }
    }
    return all;
  }

  ReferenceBackend backend_;
  std::optional<SequenceCache> cache_;
};

void ExpectOrdinary(float x) {
  ASSERT_GE(std::fabs(x), 0.5f);
  ASSERT_LT(std::fabs(x), 2.0f);
}

// Two scales; then zeros.
void ExpectOrdinaryKey(const KeyRows& keys, std::int32_t sequence, std::int64_t row) {
  const std::uint8_t* packed = keys.Row(sequence, row);
  std::vector<Bf16> numbers(static_cast<std::size_t>(keys.layout.head_dim));
  UnpackKey(packed, keys.layout, numbers.data());
  for (const Bf16 x : numbers) {
    ExpectOrdinary(ToFloat(x));
  }
  const std::uint8_t* padding = packed + ScaleOffset(keys.layout) + 2;
  EXPECT_EQ(FilledBytes(padding, packed + keys.blocks.row_bytes - padding), std::string(6, '\0'));
}

void ExpectOrdinaryTails(const CompressorCache& cache, std::int64_t sequence) {
  for (std::int64_t slot = 0; slot < cache.tail_slots; ++slot) {
    for (const Matrix<float>* tail : {&cache.tail_values, &cache.tail_scores}) {
      for (const float x : tail->RowSpan(sequence * cache.tail_slots + slot)) {
        ExpectOrdinary(x);
      }
    }
  }
}

TEST_P(RandomFillTest, WritesNumbersWhereAQueryReads) {
  ASSERT_TRUE(cache_->Extend(1, 0, kTokens));
  FillLayerRandomly(*cache_, 0, 1, kTokens, 7);
  const LayerCache& l = layer();
  for (std::int64_t p = kTokens - 10 - 3 + 1; p < kTokens; ++p) {
    ExpectOrdinaryKey(l.window.rows, 1, p);
  }
  if (l.ratio == 0) {
    return;
  }
  const std::int64_t n_rows = kTokens / l.ratio;
  for (std::int64_t row = 0; row < n_rows; ++row) {
    ExpectOrdinaryKey(l.compressor.rows, 1, row);
  }
  ExpectOrdinaryTails(l.compressor, 1);
  if (l.ratio == 4) {
    for (std::int64_t row = 0; row < n_rows; ++row) {
      const std::uint8_t* packed = l.indexer.packed_rows.Row(1, row);
      for (std::int64_t i = kIndexDim / 2; i < kPackedIndexBytes; ++i) {
        ASSERT_GE(packed[i], 124);
        ASSERT_LE(packed[i], 127);
      }
    }
    ExpectOrdinaryTails(l.indexer, 1);
  }
}

TEST_P(RandomFillTest, LeavesOtherSequencesAndLaterRowsAlone) {
  ASSERT_TRUE(cache_->Extend(1, 0, kTokens));
  const std::string zeros = ReadBytes(0);
  FillLayerRandomly(*cache_, 0, 1, kTokens, 7);
  EXPECT_EQ(ReadBytes(0), zeros);
  EXPECT_EQ(ReadBytes(2), zeros);
  const CompressorCache& c = layer().compressor;
  if (c.ratio != 0) {
    const std::string rest = RowBytes(c.rows.blocks, 1, kTokens / c.ratio);
    EXPECT_EQ(rest, std::string(rest.size(), '\0'));
  }
}

TEST_P(RandomFillTest, TheSeedSaysWhich) {
  for (std::int32_t sequence = 0; sequence < kSequences; ++sequence) {
    ASSERT_TRUE(cache_->Extend(sequence, 0, kTokens));
  }
  FillLayerRandomly(*cache_, 0, 0, kTokens, 7);
  FillLayerRandomly(*cache_, 0, 1, kTokens, 7);
  FillLayerRandomly(*cache_, 0, 2, kTokens, 8);
  EXPECT_TRUE(ReadBytes(0) == ReadBytes(1));
  EXPECT_TRUE(ReadBytes(0) != ReadBytes(2));
}

TEST_P(RandomFillTest, TakesAnyNumberOfTokens) {
  for (const std::int64_t n_tokens : {std::int64_t{0}, std::int64_t{1}, kContext}) {
    FillLayerRandomly(*cache_, 0, 2, n_tokens, 1);
  }
  EXPECT_EQ(ReadBytes(1), std::string(ReadBytes(1).size(), '\0'));
}

INSTANTIATE_TEST_SUITE_P(Ratios, RandomFillTest, ::testing::Values(0, 4, 128));

}  // namespace
}  // namespace fathom::kv_cache
