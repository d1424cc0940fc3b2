// The indexer: packing queries, scoring compressed rows, choosing the best.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/shape_checks.h"

namespace fathom {
namespace {

constexpr std::int64_t kGroups = 4;         // of 32 numbers that share a scale
constexpr std::int64_t kMaxHeadGroups = 8;  // of 16 heads; V4 has 64 heads
constexpr int kRowOffset = 12;              // what the kernel adds to twice the value of a row
constexpr std::int64_t kScoreWork = 64;     // of one head and row, in multiply-adds of a product
constexpr std::int64_t kPackWork = 64 * kIndexDim;

// The queries of one token as Kernels::index_scores reads them.
struct IndexQueryBlock {
  alignas(64) std::array<std::int8_t, kMaxHeadGroups * cpu::kIndexGroupBytes> bytes;
  alignas(64) std::array<std::int32_t, kMaxHeadGroups * kGroups * cpu::kIndexLanes> offsets;
  alignas(64) std::array<float, kMaxHeadGroups * kGroups * cpu::kIndexLanes> scales;
  alignas(64) std::array<float, kMaxHeadGroups * cpu::kIndexLanes> weights;
  std::int64_t head_groups = 0;
};

// Absent heads of the last group are zeros with weight zero.
void LayOutQueries(std::span<const std::uint8_t> queries, std::span<const Bf16> head_weights,
                   IndexQueryBlock& block) {
  const std::int64_t heads = std::ssize(head_weights);
  block.head_groups = (heads + cpu::kIndexLanes - 1) / cpu::kIndexLanes;
  std::fill_n(block.bytes.begin(), block.head_groups * cpu::kIndexGroupBytes, std::int8_t{0});
  std::fill_n(block.offsets.begin(), block.head_groups * kGroups * cpu::kIndexLanes, 0);
  std::fill_n(block.scales.begin(), block.head_groups * kGroups * cpu::kIndexLanes, 0.0f);
  std::fill_n(block.weights.begin(), block.head_groups * cpu::kIndexLanes, 0.0f);
  const auto weight_scale = static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(kIndexDim) * static_cast<double>(heads)));
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t group = head / cpu::kIndexLanes;
    const std::int64_t lane = head % cpu::kIndexLanes;
    const std::uint8_t* packed = queries.data() + head * kPackedIndexBytes;
    std::int8_t* bytes = block.bytes.data() + group * cpu::kIndexGroupBytes + lane * 4;
    for (std::int64_t i = 0; i < kIndexDim; ++i) {
      // 16 bytes of a group: first their low nibbles, then the high ones.
      const std::int64_t in_group = i % 32;
      const int nibble = packed[i / 32 * 16 + in_group % 16] >> (in_group < 16 ? 0 : 4) & 15;
      const int twice = static_cast<int>(2.0f * E2m1ToFloat(static_cast<std::uint8_t>(nibble)));
      bytes[i / 4 * 4 * cpu::kIndexLanes + i % 4] = static_cast<std::int8_t>(twice);
      const std::int64_t sums = (group * kGroups + i / 32) * cpu::kIndexLanes + lane;
      block.offsets[static_cast<std::size_t>(sums)] += kRowOffset * twice;
    }
    for (std::int64_t g = 0; g < kGroups; ++g) {
      block.scales[static_cast<std::size_t>((group * kGroups + g) * cpu::kIndexLanes + lane)] =
          E8m0ToFloat(packed[kIndexDim / 2 + g]);
    }
    block.weights[static_cast<std::size_t>(head)] =
        RoundToBf16(ToFloat(head_weights[static_cast<std::size_t>(head)]) * weight_scale);
  }
}

// A finite or infinite bf16 number by its rank: 0 is -inf.
float NumberOfRank(int rank) {
  constexpr int kNumbers = 0x7F81;  // of either sign, zero and infinity included
  const int magnitude = rank < kNumbers ? kNumbers - 1 - rank : rank - kNumbers;
  return ToFloat(Bf16{static_cast<std::uint16_t>(magnitude | (rank < kNumbers ? 0x8000 : 0))});
}

// The largest number that at least `count` of the scores reach, and how many are above it. The
// scores are bf16 and not NaN.
struct Threshold {
  float score = 0.0f;
  std::int64_t above = 0;
};
Threshold FindThreshold(const cpu::Kernels& kernels, std::span<const float> scores,
                        std::int64_t count) {
  Threshold threshold;
  int reached = 0;
  int too_large = 2 * 0x7F81;
  while (too_large - reached > 1) {
    const int middle = (reached + too_large) / 2;
    const std::int64_t found =
        kernels.count_at_least(scores.data(), std::ssize(scores), NumberOfRank(middle));
    if (found >= count) {
      reached = middle;
    } else {
      too_large = middle;
      threshold.above = found;
    }
  }
  threshold.score = NumberOfRank(reached);
  return threshold;
}

// Unsigned numbers in the opposite order of scores; zeros of both signs are equal.
std::uint64_t DescendingKey(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits >> 31) != 0 ? bits : 0x7FFFFFFFu - bits;
}

// chosen = the ids of its size highest scores, best first, ties lowest id first. There are more
// scores than that. order: room for `chosen`.
void ChooseBest(const cpu::Kernels& kernels, std::span<const float> scores,
                std::span<std::uint64_t> order, std::span<std::int32_t> chosen) {
  const Threshold threshold = FindThreshold(kernels, scores, std::ssize(chosen));
  std::int64_t equal = std::ssize(chosen) - threshold.above;  // to be taken at the threshold
  std::size_t n = 0;
  for (std::size_t i = 0; n < chosen.size(); ++i) {
    if (scores[i] < threshold.score || (scores[i] == threshold.score && equal-- <= 0)) {
      continue;
    }
    order[n++] = DescendingKey(scores[i]) << 32 | i;
  }
  const auto end = order.begin() + std::ssize(chosen);
  std::sort(order.begin(), end);
  std::transform(order.begin(), end, chosen.begin(),
                 [](std::uint64_t key) { return static_cast<std::int32_t>(key & 0xFFFFFFFFu); });
}

cpu::IndexTask TaskOf(const IndexQueryBlock& block) {
  return {.bytes = block.bytes.data(),
          .offsets = block.offsets.data(),
          .scales = block.scales.data(),
          .weights = block.weights.data(),
          .head_groups = block.head_groups};
}

void ListAll(std::int64_t visible, std::span<std::int32_t> rows) {
  const auto end = rows.begin() + visible;
  std::iota(rows.begin(), end, 0);
  std::fill(end, rows.end(), -1);
}

}  // namespace

void CpuBackend::IndexQueries(Matrix<const Bf16> q, const RopeRows& rope,
                              Matrix<std::uint8_t> out) {
  const std::int64_t heads = q.cols / kIndexDim;
  const std::int64_t pairs = rope.cos.cols;
  CheckIndexQueries(q, rope, out);
  ForItems(q.rows * heads, kPackWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      Bf16 x[kIndexDim];
      std::copy_n(q.data + i * kIndexDim, kIndexDim, x);
      kernels_.rotate(Bits(x) + kIndexDim - 2 * pairs, RotaryOf(rope, i / heads));
      kernels_.pack_index(Bits(x), out.data + i * kPackedIndexBytes);
    }
  });
}

// Many tokens: each thread scores and chooses for its own. Few tokens: one after the other, the
// threads share the rows.
void CpuBackend::SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                            const BatchView& batch, const CompressorCache& cache,
                            Matrix<std::int32_t> rows) {
  const std::int64_t t = batch.n_tokens();
  Check(queries.rows == t && head_weights.rows == t && rows.rows == t &&
            queries.cols == head_weights.cols * kPackedIndexBytes &&
            cache.packed_rows.row_bytes == kPackedIndexBytes,
        "SelectRows: shapes");
  if (head_weights.cols > kMaxHeadGroups * cpu::kIndexLanes) {
    return ReferenceBackend::SelectRows(queries, head_weights, batch, cache, rows);
  }
  const bool share_rows = t < team_.n_threads();
  const auto select = [&](std::int64_t row, int piece) {
    const std::int64_t visible =
        VisibleRows(batch.positions[static_cast<std::size_t>(row)], cache.ratio);
    Check(visible <= cache.Capacity(), "SelectRows: more rows than the cache holds");
    if (visible <= rows.cols) {
      return ListAll(visible, rows.RowSpan(row));
    }
    const std::span<float> all_scores = Piece(scratch_.row_scores, piece, team_.n_threads());
    const std::span<std::uint64_t> order = Piece(scratch_.row_order, piece, team_.n_threads());
    const auto n = static_cast<std::size_t>(visible);
    Check(n <= all_scores.size(), "SelectRows: more rows than Reserve announced");
    IndexQueryBlock block;
    LayOutQueries(queries.RowSpan(row), head_weights.RowSpan(row), block);
    const std::int32_t sequence = batch.SegmentOf(row).sequence;
    const auto score = [&](std::int64_t first, std::int64_t end) {
      cpu::IndexTask task = TaskOf(block);
      const std::int64_t per_block = cache.packed_rows.rows_per_block;
      for (; first < end; first += task.end) {
        task.rows = cache.packed_rows.Row(sequence, first);
        task.scores = all_scores.data() + first;
        task.end = std::min(end - first, per_block - first % per_block);
        kernels_.index_scores(task);
      }
    };
    if (share_rows) {
      ForItems(visible, block.head_groups * cpu::kIndexLanes * kScoreWork, score);
    } else {
      score(0, visible);
    }
    ChooseBest(kernels_, all_scores.first(n), order, rows.RowSpan(row));
  };
  if (share_rows) {
    for (std::int64_t row = 0; row < t; ++row) {
      select(row, 0);
    }
    return;
  }
  // At least as many rows are scored as are chosen.
  ForItems(t, rows.cols * head_weights.cols * kScoreWork,
           [&](std::int64_t first, std::int64_t end, int worker) {
             for (std::int64_t row = first; row < end; ++row) {
               select(row, worker);
             }
           });
}

}  // namespace fathom
