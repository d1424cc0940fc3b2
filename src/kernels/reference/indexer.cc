// Index queries, scores and the choice of rows (docs/numerics.md 7; docs/spec/model.md 6).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/reference/vectors.h"

namespace fathom::kernels {
namespace {

// Returns number `i` of a packed vector, times 2: an integer.
int TwiceCode(const std::uint8_t* packed, std::int64_t i) {
  const int nibble = packed[i / 2] >> (4 * (i % 2)) & 15;
  return static_cast<int>(2.0f * E2m1ToFloat(static_cast<std::uint8_t>(nibble)));
}

float GroupScale(const std::uint8_t* packed, std::int64_t group) {
  return E8m0ToFloat(packed[kIndexDim / 2 + group]);
}

// Returns the product of two packed vectors.
float PackedProduct(const std::uint8_t* q, const std::uint8_t* k) {
  float d = 0.0f;
  for (std::int64_t group = 0; group < kIndexDim / kIndexGroup; ++group) {
    int sum = 0;
    for (std::int64_t i = group * kIndexGroup; i < (group + 1) * kIndexGroup; ++i) {
      sum += TwiceCode(q, i) * TwiceCode(k, i);
    }
    const float c = static_cast<float>(sum) * 0.25f;
    const float scale = GroupScale(q, group) * GroupScale(k, group);
    d = group == 0 ? c * scale : std::fma(c, scale, d);
  }
  return d;
}

// Returns the score of one row for one token. queries [heads * 68]; weights [heads], scaled.
float Score(std::span<const std::uint8_t> queries, const std::vector<float>& weights,
            const std::uint8_t* row) {
  const float sum = LaneSum(std::ssize(weights), [&](std::int64_t head) {
    const float d = RoundToBf16(PackedProduct(queries.data() + head * kPackedIndexBytes, row));
    const float positive = d > 0.0f ? d : 0.0f;
    return RoundToBf16(positive * weights[static_cast<std::size_t>(head)]);
  });
  const float score = RoundToBf16(sum);
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

std::vector<float> ScaledHeadWeights(std::span<const Bf16> head_weights) {
  const double heads = static_cast<double>(head_weights.size());
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kIndexDim) * heads));
  std::vector<float> scaled;
  for (const Bf16 w : head_weights) {
    scaled.push_back(RoundToBf16(ToFloat(w) * scale));
  }
  return scaled;
}

// Returns the scores of the rows in these places of a sequence for one token.
std::vector<float> Scores(std::span<const std::uint8_t> queries, std::span<const Bf16> head_weights,
                          const BlockRows& rows, std::int32_t sequence, const RowRange& range) {
  const std::vector<float> weights = ScaledHeadWeights(head_weights);
  std::vector<float> scores;
  for (std::int64_t row = range.first; row < range.end; ++row) {
    scores.push_back(Score(queries, weights, rows.Row(sequence, row)));
  }
  return scores;
}

// Returns the places of the `count` highest scores, best first, ties lowest place first.
std::vector<std::int32_t> Best(const std::vector<float>& scores, std::int64_t count) {
  std::vector<std::int32_t> places(scores.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

}  // namespace

struct ReferenceBackend::IndexerOperations {
  ReferenceBackend& self;

  void Compute(const IndexQueriesOp& op) {
    const std::int64_t heads = op.q.cols / kIndexDim;
    const std::int64_t pairs = op.rope.cos.cols;
    for (std::int64_t row = 0; row < op.q.rows; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        Bf16 x[kIndexDim];
        std::copy_n(op.q.Row(row) + head * kIndexDim, kIndexDim, x);
        RotatePairs(x + kIndexDim - 2 * pairs, pairs, op.rope.cos.Row(row), op.rope.sin.Row(row));
        RotateHadamard(x);
        PackFp4(x, op.out.Row(row) + head * kPackedIndexBytes);
      }
    }
  }

  void Compute(const SelectRowsOp& op) {
    for (std::int64_t row = 0; row < op.rows.rows; ++row) {
      const std::int64_t visible =
          VisibleRows(op.batch.positions[static_cast<std::size_t>(row)], op.cache.ratio);
      Check(visible <= op.cache.Capacity(), "SelectRows: more rows than the cache holds");
      if (visible <= op.rows.cols) {
        ChooseAll(visible, op.rows.RowSpan(row));
        continue;
      }
      Check(op.cache.share.n == 1, "SelectRows: rows that other ranks have");
      const std::vector<std::int32_t> chosen =
          Best(Scores(op.queries.RowSpan(row), op.head_weights.RowSpan(row), op.cache.packed_rows,
                      op.batch.FindSegment(row).sequence, {0, visible}),
               op.rows.cols);
      std::copy(chosen.begin(), chosen.end(), op.rows.Row(row));
    }
  }

  void Compute(const BestRowsOp& op) {
    for (std::int64_t row = 0; row < op.best.rows; ++row) {
      const RowRange& range = op.ranges[static_cast<std::size_t>(row)];
      const std::vector<float> scores =
          Scores(op.queries.RowSpan(row), op.head_weights.RowSpan(row), op.cache.packed_rows,
                 op.batch.FindSegment(row).sequence, range);
      std::fill_n(op.best.Row(row), op.best.cols, kNoScoredRow);
      ScoredRow* next = op.best.Row(row);
      for (const std::int32_t place : Best(scores, std::min(range.n_rows(), op.best.cols))) {
        *next++ = ToScoredRow(scores[static_cast<std::size_t>(place)],
                              op.cache.share.RowIn(range.first + place));
      }
    }
  }
};

bool ReferenceBackend::ComputeIndexer(const Operation& operation) {
  return ComputeBy(IndexerOperations{*this}, operation);
}

}  // namespace fathom::kernels
