// The indexer: packs queries, scores compressed rows and chooses the best.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kGroups = 4;         // groups of 32 numbers that share a scale
constexpr std::int64_t kMaxHeadGroups = 8;  // groups of 16 heads; V4 has 64 heads
constexpr int kRowOffset = 12;              // added to twice the value of a row
constexpr std::int64_t kScoreWork = 64;     // work per head and row, in multiply-adds of a product
constexpr std::int64_t kPackWork = 64 * kIndexDim;

// The queries of one token in the layout that Kernels::index_scores reads.
struct IndexQueryBlock {
  alignas(64) std::array<std::int8_t, kMaxHeadGroups * cpu::kIndexGroupBytes> bytes;
  alignas(64) std::array<std::int32_t, kMaxHeadGroups * kGroups * cpu::kIndexLanes> offsets;
  alignas(64) std::array<float, kMaxHeadGroups * kGroups * cpu::kIndexLanes> scales;
  alignas(64) std::array<float, kMaxHeadGroups * cpu::kIndexLanes> weights;
  std::int64_t head_groups = 0;
};

// Pads the last group with zeros of weight zero.
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

// Returns the finite or infinite bf16 number of this rank; rank 0 is -inf.
float NumberOfRank(int rank) {
  constexpr int kNumbers = 0x7F81;  // both signs, zero and infinity included
  const int magnitude = rank < kNumbers ? kNumbers - 1 - rank : rank - kNumbers;
  return ToFloat(Bf16{static_cast<std::uint16_t>(magnitude | (rank < kNumbers ? 0x8000 : 0))});
}

// The largest number that at least `count` of the scores reach, and the number of scores above it.
// The scores are bf16 and not NaN.
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

// Sets best to the best of these rows, in order. best.size() is at most the number of rows. scores:
// the scores of the rows from place `first` of the share on.
void ChooseBest(const cpu::Kernels& kernels, std::span<const float> scores, const CacheShard& share,
                std::int64_t first, std::span<ScoredRow> best) {
  const Threshold threshold = FindThreshold(kernels, scores, std::ssize(best));
  std::int64_t equal = std::ssize(best) - threshold.above;  // rows at the threshold to choose
  std::size_t n = 0;
  for (std::size_t i = 0; n < best.size(); ++i) {
    if (scores[i] < threshold.score || (scores[i] == threshold.score && equal-- <= 0)) continue;
    best[n++] = ToScoredRow(scores[i], share.RowIn(first + static_cast<std::int64_t>(i)));
  }
  std::sort(best.begin(), best.end());
}

cpu::IndexTask MakeTask(const IndexQueryBlock& block) {
  return {.bytes = block.bytes.data(),
          .offsets = block.offsets.data(),
          .scales = block.scales.data(),
          .weights = block.weights.data(),
          .head_groups = block.head_groups};
}

}  // namespace

struct CpuBackend::IndexerOperations {
  CpuBackend& self;

  void Compute(const IndexQueriesOp& op) {
    const std::int64_t heads = op.q.cols / kIndexDim;
    const std::int64_t pairs = op.rope.cos.cols;
    self.ForEach(op.q.rows * heads, kPackWork, [&](std::int64_t i) {
      Bf16 x[kIndexDim];
      std::copy_n(op.q.data + i * kIndexDim, kIndexDim, x);
      self.kernels_.rotate(Bits(x) + kIndexDim - 2 * pairs, RotaryRowAt(op.rope, i / heads));
      self.kernels_.pack_index(Bits(x), op.out.data + i * kPackedIndexBytes);
    });
  }

  // A thread's part in choosing rows.
  struct IndexWorker {
    int piece = 0;             // index of its scratch memory
    bool shares_rows = false;  // true: on the calling thread, and all threads share the rows
  };

  // The inputs of scoring.
  struct IndexInput {
    Matrix<const std::uint8_t> queries;
    Matrix<const Bf16> head_weights;
    const BatchView& batch;
    const CompressorCache& cache;

    // Returns true if there are more heads than the kernels handle: the reference handles them.
    bool IsTooWide() const { return head_weights.cols > kMaxHeadGroups * cpu::kIndexLanes; }
  };

  // Returns the best rows of a range for one token, at most n_best, in order, in the scratch memory
  // of this worker.
  std::span<const ScoredRow> ChooseBestRows(const IndexInput& input, std::int64_t token,
                                            const RowRange& range, std::int64_t n_best,
                                            const IndexWorker& worker) {
    const auto n = static_cast<std::size_t>(range.n_rows());
    const std::span<float> scores =
        Piece(self.scratch_.row_scores, worker.piece, self.team_.n_threads());
    const std::span<ScoredRow> order =
        Piece(self.scratch_.row_order, worker.piece, self.team_.n_threads());
    Check(n <= scores.size(), "SelectRows: more rows than Reserve announced");
    if (n == 0) return {};
    IndexQueryBlock block;
    LayOutQueries(input.queries.RowSpan(token), input.head_weights.RowSpan(token), block);
    const BlockRows& rows = input.cache.packed_rows;
    const std::int32_t sequence = input.batch.FindSegment(token).sequence;
    const auto score = [&](std::int64_t first, std::int64_t end) {
      cpu::IndexTask task = MakeTask(block);
      for (; first < end; first += task.end) {
        const std::int64_t row = range.first + first;
        task.rows = rows.Row(sequence, row);
        task.scores = scores.data() + first;
        task.end = std::min(end - first, rows.rows_per_block - row % rows.rows_per_block);
        self.kernels_.index_scores(task);
      }
    };
    if (worker.shares_rows) {
      self.ForItems(range.n_rows(), block.head_groups * cpu::kIndexLanes * kScoreWork, score);
    } else {
      score(0, range.n_rows());
    }
    const std::span<ScoredRow> best =
        order.first(static_cast<std::size_t>(std::min(range.n_rows(), n_best)));
    ChooseBest(self.kernels_, scores.first(n), input.cache.share, range.first, best);
    return best;
  }

  // Calls choose(token, worker) for all tokens. With many tokens, each thread scores and chooses
  // for its own tokens; with few tokens, all threads share the rows of one token after the other.
  template <class Choose>
  void ForTokens(const IndexInput& input, std::int64_t n_best, const Choose& choose) {
    const std::int64_t t = input.batch.n_tokens();
    if (t < self.team_.n_threads()) {
      for (std::int64_t token = 0; token < t; ++token) {
        choose(token, IndexWorker{.piece = 0, .shares_rows = true});
      }
      return;
    }
    // About as many rows are scored as are chosen, or more.
    self.ForItems(t, n_best * input.head_weights.cols * kScoreWork,
                  [&](std::int64_t first, std::int64_t end, int piece) {
                    for (std::int64_t token = first; token < end; ++token) {
                      choose(token, IndexWorker{.piece = piece, .shares_rows = false});
                    }
                  });
  }

  void Compute(const SelectRowsOp& op) {
    const IndexInput input = {op.queries, op.head_weights, op.batch, op.cache};
    if (input.IsTooWide()) {
      return self.ReferenceBackend::Compute(op);
    }
    ForTokens(input, op.rows.cols, [&](std::int64_t token, const IndexWorker& worker) {
      const std::int64_t visible =
          VisibleRows(op.batch.positions[static_cast<std::size_t>(token)], op.cache.ratio);
      Check(visible <= op.cache.Capacity(), "SelectRows: more rows than the cache holds");
      if (visible <= op.rows.cols) return ChooseAll(visible, op.rows.RowSpan(token));
      Check(op.cache.share.n == 1, "SelectRows: rows that other ranks have");
      const auto best = ChooseBestRows(input, token, {0, visible}, op.rows.cols, worker);
      std::transform(best.begin(), best.end(), op.rows.Row(token), ToRow);
    });
  }

  void Compute(const BestRowsOp& op) {
    const IndexInput input = {op.queries, op.head_weights, op.batch, op.cache};
    if (input.IsTooWide()) {
      return self.ReferenceBackend::Compute(op);
    }
    ForTokens(input, op.best.cols, [&](std::int64_t token, const IndexWorker& worker) {
      const auto found = ChooseBestRows(input, token, op.ranges[static_cast<std::size_t>(token)],
                                        op.best.cols, worker);
      std::fill_n(std::copy(found.begin(), found.end(), op.best.Row(token)),
                  op.best.cols - std::ssize(found), kNoScoredRow);
    });
  }
};

bool CpuBackend::ComputeIndexer(const Operation& operation) {
  return ComputeBy(IndexerOperations{*this}, operation);
}

}  // namespace fathom::kernels
