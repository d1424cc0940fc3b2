// The bytes of cached state against the formulas of docs/spec/flops_bytes.md 3: FP8 rows of 584
// bytes, FP4 indexer rows of 68 bytes, fp32 compressor inputs.
#include "kv_cache/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace fathom::kv_cache {
namespace {

constexpr std::int64_t kRowBytes = 584;
constexpr std::int64_t kWindowBytes = 128 * kRowBytes;
constexpr std::int64_t kCsaTailBytes = 8 * 1024 * 2 * 4 + 8 * 256 * 2 * 4;
constexpr std::int64_t kHcaTailBytes = 128 * 512 * 2 * 4;

// Ratios as the published configurations list them: `first`, then 4 and 128 by turns.
std::vector<int> Alternating(std::vector<int> first, std::size_t n_layers) {
  while (first.size() < n_layers) {
    first.push_back(first.back() == 4 ? 128 : 4);
  }
  return first;
}

CacheShape Shape(std::vector<int> ratios, std::int64_t max_context, std::int64_t rollback = 0) {
  return {.keys = {512, 64},
          .sliding_window = 128,
          .ratios = std::move(ratios),
          .max_context = max_context,
          .rollback = rollback};
}

struct Published {
  const char* name;
  std::vector<int> ratios;
  std::int64_t n_window_only;
  std::int64_t n_csa;
  std::int64_t n_hca;
  double bytes_per_token;  // (584 + 68) / 4 and 584 / 128 bytes a layer
};

std::vector<Published> PublishedModels() {
  return {{"Flash", Alternating({0, 0}, 43), 2, 21, 20, 3514.25},
          {"Pro", Alternating({128, 128}, 61), 0, 30, 31, 5031.4375}};
}

TEST(Layout, LayerListsAreThePublishedOnes) {
  for (const Published& model : PublishedModels()) {
    EXPECT_EQ(std::count(model.ratios.begin(), model.ratios.end(), 0), model.n_window_only);
    EXPECT_EQ(std::count(model.ratios.begin(), model.ratios.end(), 4), model.n_csa);
    EXPECT_EQ(std::count(model.ratios.begin(), model.ratios.end(), 128), model.n_hca);
  }
}

TEST(Layout, BytesOfThePublishedModels) {
  for (const Published& model : PublishedModels()) {
    for (const std::int64_t context : {std::int64_t{1} << 17, std::int64_t{1} << 20}) {
      const CacheShape shape = Shape(model.ratios, context);
      const LayerBytes bytes = BytesPerSequence(shape);
      const std::int64_t n_layers = model.n_window_only + model.n_csa + model.n_hca;
      EXPECT_EQ(bytes.constant,
                n_layers * kWindowBytes + model.n_csa * kCsaTailBytes + model.n_hca * kHcaTailBytes)
          << model.name;
      EXPECT_EQ(bytes.growing, model.n_csa * (context / 4) * (kRowBytes + 68) +
                                   model.n_hca * (context / 128) * kRowBytes)
          << model.name;
      EXPECT_EQ(BytesPerToken(shape), model.bytes_per_token) << model.name;
      EXPECT_EQ(BytesPerToken(shape) * static_cast<double>(context),
                static_cast<double>(bytes.growing));
    }
  }
}

// The part that grows with the context is divided, except one row in 128 tokens; a block has whole
// rows.
TEST(Layout, DividedRowsAreAnEqualShareOnEveryRank) {
  for (const Published& model : PublishedModels()) {
    CacheShape shape = Shape(model.ratios, std::int64_t{1} << 20);
    const CacheShape whole = shape;
    const double csa = static_cast<double>(model.n_csa * (kRowBytes + 68)) / 4;
    for (const int n : {2, 8, 32}) {
      for (const int rank : {0, n - 1}) {
        shape.rows_of_ratio_4 = {.rank = rank, .n = n};
        EXPECT_EQ(BytesPerToken(shape), model.bytes_per_token - csa + csa / n) << model.name;
        EXPECT_EQ(static_cast<double>(BytesPerSequence(shape).growing),
                  BytesPerToken(shape) * static_cast<double>(shape.max_context));
        EXPECT_EQ(BytesPerSequence(shape).constant, BytesPerSequence(whole).constant);
        EXPECT_EQ(RowsOfBlock(4, shape), 32 / n);
        EXPECT_EQ(RowsOfBlock(128, shape), 1);
        EXPECT_LT(MakeHistoryLayout(shape).bytes, MakeHistoryLayout(whole).bytes);
        EXPECT_EQ(MakeWindowLayout(shape).bytes, MakeWindowLayout(whole).bytes);
      }
    }
  }
}

// The sums that the specification states in megabytes (its window and state rows).
TEST(Layout, ConstantsAreThoseOfTheSpecification) {
  const auto constant = [](const std::vector<int>& ratios) {
    return static_cast<double>(BytesPerSequence(Shape(ratios, 4)).constant);
  };
  EXPECT_NEAR(constant(PublishedModels()[0].ratios), 3.21e6 + 12.21e6, 0.01e6);
  EXPECT_NEAR(constant(PublishedModels()[1].ratios), 4.56e6 + 18.71e6, 0.01e6);
}

TEST(Layout, RollbackAddsItsPositionsToWindowAndTails) {
  for (const int ratio : {0, 4, 128}) {
    const LayerLayout without = MakeLayerLayout(ratio, Shape({ratio}, 1000, 0));
    const LayerLayout with = MakeLayerLayout(ratio, Shape({ratio}, 1000, 8));
    EXPECT_EQ(with.window_slots, 136);
    EXPECT_EQ(with.tail_slots, ratio == 0 ? 0 : without.tail_slots + 8);
    EXPECT_EQ(with.compressed_rows, without.compressed_rows);
    EXPECT_EQ(with.index_rows, without.index_rows);
    EXPECT_EQ(with.tail_width, without.tail_width);
    const std::int64_t inputs = without.tail_width + without.index_tail_width;
    const LayerBytes bytes_without = ComputeLayerBytes(without, Shape({ratio}, 1000, 0));
    const LayerBytes bytes_with = ComputeLayerBytes(with, Shape({ratio}, 1000, 8));
    EXPECT_EQ(bytes_with.constant - bytes_without.constant, 8 * (kRowBytes + inputs * 2 * 4));
    EXPECT_EQ(bytes_with.growing, bytes_without.growing);
  }
}

TEST(Layout, RowsOfAnUnevenContextAreTheCompleteOnes) {
  const LayerLayout csa = MakeLayerLayout(4, Shape({4}, 1023));
  EXPECT_EQ(csa.compressed_rows, 255);
  EXPECT_EQ(csa.index_rows, 255);
  EXPECT_EQ(csa.tail_slots, 8);
  EXPECT_EQ(csa.tail_width, 1024);
  EXPECT_EQ(csa.index_tail_width, 256);
  const LayerLayout hca = MakeLayerLayout(128, Shape({128}, 1023));
  EXPECT_EQ(hca.compressed_rows, 7);
  EXPECT_EQ(hca.index_rows, 0);
  EXPECT_EQ(hca.tail_slots, 128);
  EXPECT_EQ(hca.tail_width, 512);
  EXPECT_EQ(hca.index_tail_width, 0);
  const LayerLayout window = MakeLayerLayout(0, Shape({0}, 1023));
  EXPECT_EQ(window.compressed_rows, 0);
  EXPECT_EQ(window.tail_slots, 0);
}

}  // namespace
}  // namespace fathom::kv_cache
