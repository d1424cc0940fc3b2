// Index scores (docs/numerics.md 7). 16 heads are the 16 lanes: a row's bytes are broadcast, four
// columns at a time, and multiplied with the bytes of all heads. The sums of products are integers.
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kIndexDim = 128;
constexpr int64_t kGroups = 4;  // groups of 32 columns
constexpr int64_t kQuads = 8;   // quads of 4 columns in a group
constexpr int64_t kPackedBytes = 68;

// One row of the index: twice its values + 12, which makes them unsigned, in the order of
// ExpandTwice; and the scales.
struct IndexRow {
  int32_t quads[kGroups * kQuads];
  float scales[kGroups];
};

void ExpandRow(const uint8_t* packed, IndexRow& row) {
  for (int64_t g = 0; g < kGroups; ++g) {
    ExpandTwice(packed + 16 * g, row.quads + kQuads * g);
    row.scales[g] = FromE8m0(packed[kIndexDim / 2 + g]);
  }
}

// Adds the contribution of lanes [part * kLanes, ...) of one group of 16 heads to the scores of
// kRows rows.
template <int kRows>
void WeighHeads(const cpu::IndexTask& task, int64_t heads, int part, const IndexRow* rows,
                F32 (*lanes)[kParts]) {
  const int8_t* bytes = task.bytes + heads * cpu::kIndexGroupBytes + part * kLanes * 4;
  const int64_t groups = heads * kGroups * cpu::kIndexLanes + part * kLanes;
  // Starts from +0, while the definition starts from the first product: only the sign of a zero sum
  // can differ, and the maximum with 0 removes it.
  F32 products[kRows];
  for (F32& product : products) {
    product = Zero();
  }
  for (int64_t g = 0; g < kGroups; ++g) {
    I32 sums[kRows];  // sums of at most 8 * 2 * 24 * 12 = 4608 in 16 bits
    for (I32& sum : sums) {
      sum = SetInt(0);
    }
    for (int64_t q = g * kQuads; q < (g + 1) * kQuads; ++q) {
      const I32 query = LoadInt(bytes + q * 4 * cpu::kIndexLanes);
      for (int r = 0; r < kRows; ++r) {
        sums[r] = AddByteProducts(sums[r], SetInt(rows[r].quads[q]), query);
      }
    }
    const I32 offset = LoadInt(task.offsets + groups + g * cpu::kIndexLanes);
    const F32 query_scales = Load(task.scales + groups + g * cpu::kIndexLanes);
    for (int r = 0; r < kRows; ++r) {
      const I32 sum = Subtract(SumOfByteProducts(sums[r]), offset);
      const F32 c = ToFloat(sum) * Set(0.25f);
      const F32 scale = query_scales * Set(rows[r].scales[g]);
      products[r] = MulAdd(c, scale, products[r]);
    }
  }
  const F32 weights = Load(task.weights + heads * cpu::kIndexLanes + part * kLanes);
  for (int r = 0; r < kRows; ++r) {
    const F32 positive = RoundNumberToBf16(Max(products[r], Zero()));  // 0 for NaN
    lanes[r][part] = lanes[r][part] + RoundToBf16(positive * weights);
  }
}

// Computes the scores of rows [first, first + kRows).
template <int kRows>
void ScoreRows(const cpu::IndexTask& task, int64_t first) {
  IndexRow rows[kRows];
  F32 lanes[kRows][kParts];
  for (int r = 0; r < kRows; ++r) {
    ExpandRow(task.rows + (first + r) * kPackedBytes, rows[r]);
    for (F32& lane : lanes[r]) {
      lane = Zero();
    }
  }
  for (int64_t heads = 0; heads < task.head_groups; ++heads) {
    for (int part = 0; part < kParts; ++part) {
      WeighHeads<kRows>(task, heads, part, rows, lanes);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float score = RoundToBf16(TreeSum(lanes[r]));
    task.scores[first + r] = score == score ? score : -__builtin_inff();
  }
}

}  // namespace

void IndexScores(const cpu::IndexTask& task) {
  constexpr int kRows = kParts == 1 ? 8 : 4;  // rows that share a load of queries
  int64_t i = task.first;
  for (; i + kRows <= task.end; i += kRows) {
    ScoreRows<kRows>(task, i);
  }
  for (; i < task.end; ++i) {
    ScoreRows<1>(task, i);
  }
}

int64_t CountAtLeast(const float* x, int64_t n, float threshold) {
  I32 counts = SetInt(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    counts = Add(counts, SelectAtMost(Set(threshold), Load(x + i), SetInt(1), SetInt(0)));
  }
  int32_t lanes[kLanes];
  StoreInt(lanes, counts);
  int64_t count = 0;
  for (const int32_t lane : lanes) {
    count += lane;
  }
  for (; i < n; ++i) {
    count += x[i] >= threshold ? 1 : 0;
  }
  return count;
}

}  // namespace fathom::kernels::KERNEL_ISA
