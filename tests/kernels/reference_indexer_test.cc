#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::Batch;
using ::testing::ElementsAre;
using testing::Owned;
using testing::Random;
using testing::RopeTable;
using testing::ToDouble;

// Packed vectors whose groups all have the same scale: their products are exact in fp32.
Owned<std::uint8_t> RandomPacked(Random& random, std::int64_t rows, std::int64_t vectors) {
  auto packed = random.Bytes(rows, vectors * kPackedIndexBytes);
  for (std::int64_t i = 0; i < rows * vectors; ++i) {
    for (std::int64_t j = 64; j < 68; ++j) {
      packed.data[static_cast<std::size_t>(i * kPackedIndexBytes + j)] = 125;
    }
  }
  return packed;
}

double Unpack(const std::uint8_t* packed, std::int64_t i) {
  const double magnitude[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int nibble = packed[i / 2] >> (i % 2 == 0 ? 0 : 4) & 15;
  return (nibble >= 8 ? -1.0 : 1.0) * magnitude[nibble & 7] *
         std::ldexp(1.0, packed[64 + i / 32] - 127);
}

double Bf(double x) { return static_cast<double>(RoundToBf16(static_cast<float>(x))); }

struct Selection {
  Owned<std::uint8_t> rows;
  CompressorCache cache;

  explicit Selection(Owned<std::uint8_t> packed, std::int64_t capacity) : rows(std::move(packed)) {
    cache.ratio = 4;
    cache.packed_rows = testing::OneBlockEach(rows.view(), rows.rows / capacity);
  }
  Owned<std::int32_t> Select(const Owned<std::uint8_t>& queries, const Owned<Bf16>& head_weights,
                             const Batch& batch, std::int64_t top_k) {
    Owned<std::int32_t> chosen(queries.rows, top_k, -7);
    ReferenceBackend().SelectRows(queries.view(), head_weights.view(), batch.view(), cache,
                                  chosen.view());
    return chosen;
  }
  // For the one token of the batch.
  std::vector<ScoredRow> Best(const Owned<std::uint8_t>& query, const Owned<Bf16>& head_weights,
                              const Batch& batch, const RowRange& range, std::int64_t top_k) {
    std::vector<ScoredRow> best(static_cast<std::size_t>(top_k), 7);
    ReferenceBackend().BestRows(query.view(), head_weights.view(), batch.view(), cache,
                                std::vector{range}, {best.data(), 1, top_k});
    return best;
  }
};

TEST(ReferenceIndexer, QueriesAreRotatedTransformedAndPacked) {
  Random random(1);
  const auto q = random.Bf16s(2, 3 * 128);
  const RopeTable rope(std::vector<std::int32_t>{0, 900}, RopeFrequencies(64, 160000.0f, {}));
  Owned<std::uint8_t> out(2, 3 * kPackedIndexBytes);
  ReferenceBackend().IndexQueries(q.view(), rope.view(), out.view());
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t head = 0; head < 3; ++head) {
      std::vector<double> x;
      for (std::int64_t i = 0; i < 128; ++i) x.push_back(ToDouble(q.at(row, 128 * head + i)));
      for (std::size_t k = 0; k < 32; ++k) {
        const double c = static_cast<double>(rope.cos.at(row, static_cast<std::int64_t>(k)));
        const double s = static_cast<double>(rope.sin.at(row, static_cast<std::int64_t>(k)));
        const double a = x[64 + 2 * k];
        const double b = x[65 + 2 * k];
        x[64 + 2 * k] = a * c - b * s;
        x[65 + 2 * k] = a * s + b * c;
      }
      const std::uint8_t* packed = out.view().Row(row) + head * kPackedIndexBytes;
      for (unsigned i = 0; i < 128; ++i) {
        double y = 0.0;
        for (unsigned j = 0; j < 128; ++j) y += (std::popcount(i & j) & 1) != 0 ? -x[j] : x[j];
        y /= std::sqrt(128.0);
        const double scale = std::ldexp(1.0, packed[64 + i / 32] - 127);
        const double value = Unpack(packed, i);
        const double code = std::fabs(value) / scale;
        const double half = code < 2 ? 0.25 : code < 4 ? 0.5 : 1.0;
        EXPECT_NEAR(value, y, half * scale + 0.02);
      }
    }
  }
}

TEST(ReferenceIndexer, AllVisibleRowsAscendingWhileTheyFit) {
  Random random(2);
  Selection selection(RandomPacked(random, 2 * 8, 1), 8);
  const auto queries = RandomPacked(random, 6, 2);
  const auto weights = random.Bf16s(6, 2);
  Batch batch;  // sees 0, 0, 0, 1, 1 rows; the other sequence 4
  batch.Add(1, 0, 5).Add(0, 18, 1);
  const auto chosen = selection.Select(queries, weights, batch, 4);
  EXPECT_THAT(chosen.view().RowSpan(0), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(chosen.view().RowSpan(2), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(chosen.view().RowSpan(3), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(chosen.view().RowSpan(4), ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(chosen.view().RowSpan(5), ElementsAre(0, 1, 2, 3));
}

// Scores by their definition in double with the roundings of docs/spec/model.md 6; then a full
// sort.
TEST(ReferenceIndexer, BestRowsInOrder) {
  Random random(3);
  const std::int64_t heads = 20, capacity = 60, top_k = 16;
  Selection selection(RandomPacked(random, 2 * capacity, 1), capacity);
  const auto queries = RandomPacked(random, 8, heads);
  const auto weights = random.Bf16s(8, heads);
  Batch batch;
  batch.Add(1, 200, 4).Add(0, 100, 4);
  const auto chosen = selection.Select(queries, weights, batch, top_k);
  for (std::int64_t row = 0; row < 8; ++row) {
    const BatchView view = batch.view();
    const std::int64_t visible = (view.positions[static_cast<std::size_t>(row)] + 1) / 4;
    std::vector<std::pair<double, std::int64_t>> ranked;
    for (std::int64_t c = 0; c < visible; ++c) {
      const std::uint8_t* key =
          selection.rows.view().Row(view.FindSegment(row).sequence * capacity + c);
      double sum = 0.0;
      for (std::int64_t h = 0; h < heads; ++h) {
        double dot = 0.0;
        for (std::int64_t i = 0; i < 128; ++i) {
          dot += Unpack(queries.view().Row(row) + h * kPackedIndexBytes, i) * Unpack(key, i);
        }
        const double w = Bf(ToDouble(weights.at(row, h)) / std::sqrt(128.0 * 20.0));
        sum += Bf(std::max(Bf(dot), 0.0) * w);
      }
      ranked.emplace_back(-Bf(sum), c);
    }
    std::sort(ranked.begin(), ranked.end());
    for (std::int64_t i = 0; i < top_k; ++i) {
      EXPECT_EQ(chosen.at(row, i), ranked[static_cast<std::size_t>(i)].second) << row << " " << i;
    }
  }
}

// Keys that are multiples of one vector: the score is the multiple, negative ones count as 0.
TEST(ReferenceIndexer, TiesGoToTheLowestRow) {
  const std::vector<int> multiples = {-1, 2, 4, 2, -2, 4, 0, 1};
  Owned<std::uint8_t> keys(8, kPackedIndexBytes);
  for (std::int64_t c = 0; c < 8; ++c) {
    std::vector<Bf16> x(128, ToBf16(static_cast<float>(multiples[static_cast<std::size_t>(c)])));
    PackFp4(x.data(), keys.view().Row(c));
  }
  Owned<std::uint8_t> query(1, kPackedIndexBytes);
  const std::vector<Bf16> ones(128, ToBf16(1.0f));
  PackFp4(ones.data(), query.data.data());
  Selection selection(keys, 8);
  Batch batch;
  batch.Add(0, 31, 1);
  const Owned<Bf16> plus(1, 1, ToBf16(1.0f));
  EXPECT_THAT(selection.Select(query, plus, batch, 7).view().RowSpan(0),
              ElementsAre(2, 5, 1, 3, 7, 0, 4));
  const Owned<Bf16> minus(1, 1, ToBf16(-1.0f));
  EXPECT_THAT(selection.Select(query, minus, batch, 7).view().RowSpan(0),
              ElementsAre(0, 4, 6, 7, 1, 3, 2));
  // A weight that is NaN makes every score the lowest: still distinct rows, in order.
  const Owned<Bf16> nan(1, 1, Bf16{0x7FC0});
  EXPECT_THAT(selection.Select(query, nan, batch, 3).view().RowSpan(0), ElementsAre(0, 1, 2));
}

// However the rows are divided, the merged lists of the pieces are the choice from all rows: also
// with equal scores on both sides of a border, and with weights that are negative or NaN.
TEST(ReferenceIndexer, ListsOfPiecesMergeToTheChoice) {
  Random random(4);
  constexpr std::int64_t kRows = 37, kTop = 9;
  Owned<std::uint8_t> keys(kRows, kPackedIndexBytes);
  for (std::int64_t row = 0; row < kRows; ++row) {
    // Few different scores, some of them 0.
    const std::vector<Bf16> x(128, ToBf16(static_cast<float>(row * 7 % 5 - 2)));
    PackFp4(x.data(), keys.view().Row(row));
  }
  Owned<std::uint8_t> query(1, kPackedIndexBytes);
  const std::vector<Bf16> ones(128, ToBf16(1.0f));
  PackFp4(ones.data(), query.data.data());
  Selection selection(keys, kRows);
  Batch batch;
  batch.Add(0, 4 * kRows - 1, 1);
  for (const Bf16 weight : {ToBf16(1.0f), ToBf16(-1.0f), ToBf16(0.0f), Bf16{0x7FC0}}) {
    const Owned<Bf16> weights(1, 1, weight);
    const auto expected = selection.Select(query, weights, batch, kTop);
    for (const std::int64_t piece : {1, 5, 9, 10, 36, 37}) {
      std::vector<ScoredRow> lists;
      for (std::int64_t first = 0; first < kRows; first += piece) {
        const RowRange range = {first, std::min(first + piece, kRows)};
        const std::vector<ScoredRow> best = selection.Best(query, weights, batch, range, kTop);
        EXPECT_TRUE(std::is_sorted(best.begin(), best.end()));
        EXPECT_EQ(std::count(best.begin(), best.end(), kNoScoredRow),
                  std::max(kTop - range.n_rows(), std::int64_t{0}));
        lists.insert(lists.end(), best.begin(), best.end());
      }
      std::sort(lists.begin(), lists.end());
      for (std::int64_t i = 0; i < kTop; ++i) {
        EXPECT_EQ(ToRow(lists[static_cast<std::size_t>(i)]), expected.at(0, i)) << piece;
      }
    }
    EXPECT_THAT(selection.Best(query, weights, batch, {5, 5}, 2),
                ElementsAre(kNoScoredRow, kNoScoredRow));
  }
}

}  // namespace
}  // namespace fathom::kernels
