// Index queries, scores and the choice of rows (docs/numerics.md 7).
#include "kernels/gpu/device/indexer.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/codes.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/index_vector.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// Returns the product of two packed vectors.
GPU_DEVICE float PackedProduct(const uint8_t* q, const uint8_t* k) {
  constexpr int kBytes = kIndexGroupNumbers / 2;
  float d = 0.0f;
  for (int group = 0; group < kIndexDim / kIndexGroupNumbers; ++group) {
    int32_t sum = 0;
    for (int i = group * kBytes; i < (group + 1) * kBytes; ++i) {
      sum += E2m1Integer(q[i] & 15) * E2m1Integer(k[i] & 15) +
             E2m1Integer(q[i] >> 4) * E2m1Integer(k[i] >> 4);
    }
    const float c = static_cast<float>(sum) * 0.25f;
    const float scale =
        E8m0ToFloat(q[kIndexDim / 2 + group]) * E8m0ToFloat(k[kIndexDim / 2 + group]);
    d = group == 0 ? c * scale : Fma(c, scale, d);
  }
  return d;
}

// Returns the places of the sequence's rows that are scored for the i-th token of the call.
GPU_DEVICE RowRange FindRange(const ChooseRowsArguments& a, int64_t i) {
  if (a.ranges != nullptr) return a.ranges[i];
  const int64_t visible = VisibleRows(a.batch.positions[a.first_token + i], a.ratio);
  return {0, visible > a.chosen.cols ? visible : 0};
}

// Returns the sum of one number of each thread to all threads. `sums` is shared memory for a number
// per thread of the block.
template <class Sums>
GPU_DEVICE int32_t SumOfBlock(int32_t number, Sums& sums) {
  SyncBlock();
  sums[ThreadX()] = number;
  for (int n = BlockThreads() / 2; n > 0; n /= 2) {
    SyncBlock();
    if (ThreadX() < n) {
      sums[ThreadX()] = sums[ThreadX()] + sums[ThreadX() + n];
    }
  }
  SyncBlock();
  return sums[0];
}

// Returns how many scores among the thread's are at most `limit`.
GPU_DEVICE int32_t CountUpTo(const uint32_t* scores, int64_t n, uint32_t limit) {
  int32_t count = 0;
  for (int64_t i = ThreadX(); i < n; i += BlockThreads()) {
    count += scores[i] <= limit ? 1 : 0;
  }
  return count;
}

// Returns the count-th smallest score, count >= 1.
template <class Sums>
GPU_DEVICE uint32_t FindScore(const uint32_t* scores, int64_t n, int64_t count, Sums& sums) {
  uint32_t found = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (SumOfBlock(CountUpTo(scores, n, found | (bit - 1)), sums) < count) {
      found |= bit;
    }
  }
  return found;
}

// Sorts n numbers of shared memory, n a power of two, ascending. To be called after a barrier.
template <class Numbers>
GPU_DEVICE void SortOfBlock(Numbers& numbers, int64_t n) {
  for (int64_t size = 2; size <= n; size *= 2) {
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      for (int64_t pair = ThreadX(); pair < n / 2; pair += BlockThreads()) {
        const int64_t i = pair / distance * 2 * distance + pair % distance;
        const ScoredRow low = numbers[i];
        const ScoredRow high = numbers[i + distance];
        if ((low > high) == ((i & size) == 0)) {
          numbers[i] = high;
          numbers[i + distance] = low;
        }
      }
      SyncBlock();
    }
  }
}

}  // namespace

GPU_KERNEL(IndexQueries, IndexQueriesArguments a) {
  GPU_SHARED(Bf16, x, kIndexDim);
  GPU_SHARED(float, rotated, kIndexDim);
  const int64_t heads = a.q.cols / kIndexDim;
  const int64_t row = BlockX() / heads;
  const int64_t head = BlockX() % heads;
  const Bf16* const q = a.q.Row(row) + head * kIndexDim;
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = kIndexDim - 2 * pairs;
  for (int64_t i = ThreadX(); i < plain; i += BlockThreads()) {
    x[i] = q[i];
  }
  for (int64_t k = ThreadX(); k < pairs; k += BlockThreads()) {
    const int64_t i = plain + 2 * k;
    const RotatedPair pair = Rotate(q[i], q[i + 1], a.rope.cos.Row(row)[k], a.rope.sin.Row(row)[k]);
    x[i] = pair.x;
    x[i + 1] = pair.y;
  }
  SyncBlock();
  PackIndexVector(x, rotated, a.out.Row(row) + head * kPackedIndexBytes);
}

// Runs a group per token and row.
GPU_KERNEL(IndexScores, ChooseRowsArguments a) {
  const int64_t rows_of_block = BlockThreads() / kGroupThreads;
  const int64_t tiles = TileCount(a.most_rows, rows_of_block);
  const int64_t token = BlockX() / tiles;
  const RowRange range = FindRange(a, token);
  const int64_t first = BlockX() % tiles * rows_of_block;
  if (first >= range.end - range.first) return;
  const int64_t n_rows = range.end - range.first;
  const int64_t i = first + ThreadX() / kGroupThreads;
  const int64_t place = range.first + (i < n_rows ? i : n_rows - 1);
  const int64_t row = a.first_token + token;
  const uint8_t* const key = a.rows.Row(FindSegment(a.batch, row).sequence, place);
  float lane = 0.0f;
  for (int64_t head = GroupLane(); head < a.head_weights.cols; head += kGroupThreads) {
    const float weight = RoundToBf16(ToFloat(a.head_weights.Row(row)[head]) * a.weight_scale);
    const float d = RoundToBf16(PackedProduct(a.queries.Row(row) + head * kPackedIndexBytes, key));
    lane = lane + RoundToBf16((d > 0.0f ? d : 0.0f) * weight);
  }
  const float score = RoundToBf16(TreeOfGroup(lane));
  if (GroupLane() == 0 && i < n_rows) {
    const ScoredRow scored = ToScoredRow(score == score ? score : kMinusInfinity, 0);
    a.scores.Row(token)[i] = static_cast<uint32_t>(scored >> 32);
  }
}

// Runs a block per token, which writes the best rows in order, ties lowest row first. Dynamic
// shared memory: `sorted` scored rows.
GPU_KERNEL(ChooseRows, ChooseRowsArguments a) {
  GPU_SHARED(int32_t, sums, kMaxBlockThreads);
  GPU_SHARED(int32_t, tie_sums, kMaxBlockThreads);
  GPU_DYNAMIC_SHARED(ScoredRow, chosen, 0, a.sorted);
  const int64_t row = a.first_token + BlockX();
  const RowRange range = FindRange(a, BlockX());
  const int64_t n = range.end - range.first;
  const int64_t top = a.ranges == nullptr ? a.chosen.cols : a.best.cols;
  const int64_t count = n < top ? n : top;
  const uint32_t* const scores = a.scores.Row(BlockX());
  if (a.ranges == nullptr && n == 0) {  // all rows fit
    const int64_t visible = VisibleRows(a.batch.positions[row], a.ratio);
    for (int64_t i = ThreadX(); i < top; i += BlockThreads()) {
      a.chosen.Row(row)[i] = i < visible ? static_cast<int32_t>(i) : -1;
    }
    return;
  }
  for (int64_t i = ThreadX(); i < a.sorted; i += BlockThreads()) {
    chosen[i] = kNoScoredRow;
  }
  if (count > 0) {
    const uint32_t last = FindScore(scores, n, count, sums);
    // Every thread handles neighbouring rows: rows better than the last, and ties in order.
    const int64_t first = n * ThreadX() / BlockThreads();
    const int64_t end = n * (ThreadX() + 1) / BlockThreads();
    int32_t n_better = 0;
    int32_t n_ties = 0;
    for (int64_t i = first; i < end; ++i) {
      n_better += scores[i] < last ? 1 : 0;
      n_ties += scores[i] == last ? 1 : 0;
    }
    SyncBlock();
    sums[ThreadX()] = n_better;
    tie_sums[ThreadX()] = n_ties;
    SyncBlock();
    int64_t next = 0;
    int64_t next_tie = 0;
    int64_t n_all_better = 0;
    for (int thread = 0; thread < BlockThreads(); ++thread) {
      const int32_t better = sums[thread];
      next += thread < ThreadX() ? better : 0;
      n_all_better += better;
      next_tie += thread < ThreadX() ? static_cast<int32_t>(tie_sums[thread]) : 0;
    }
    next_tie += n_all_better;
    for (int64_t i = first; i < end; ++i) {
      const ScoredRow scored =
          ScoredRow{scores[i]} << 32 | static_cast<uint32_t>(a.share.RowIn(range.first + i));
      if (scores[i] < last) {
        chosen[next++] = scored;
      } else if (scores[i] == last && next_tie < count) {
        chosen[next_tie++] = scored;
      }
    }
  }
  SyncBlock();
  SortOfBlock(chosen, a.sorted);
  for (int64_t i = ThreadX(); i < top; i += BlockThreads()) {
    const ScoredRow scored = chosen[i];
    if (a.ranges == nullptr) {
      a.chosen.Row(row)[i] = ToRow(scored);
    } else {
      a.best.Row(row)[i] = scored;
    }
  }
}

}  // namespace fathom::kernels::gpu
