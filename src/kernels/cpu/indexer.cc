// Index scores (docs/numerics.md 7). 16 heads are the 16 lanes: a row's bytes are broadcast, four
// columns at a time, and multiplied with those of all heads. The sums of products are integers.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kIndexDim = 128;
constexpr int64_t kGroups = 4;  // of 32 columns
constexpr int64_t kQuads = 8;   // of 4 columns in a group
constexpr int64_t kPackedBytes = 68;
constexpr int kQueryOffset = 12;  // makes twice a query's value an unsigned byte

// One row of the index: twice its values in the order of ExpandTwice, what the offset of the
// queries adds to the sum of each group, and the scales.
struct IndexRow {
  int32_t quads[kGroups * kQuads];
  int32_t offsets[kGroups];
  float scales[kGroups];
};

void ExpandRow(const uint8_t* packed, IndexRow& row) {
  for (int64_t g = 0; g < kGroups; ++g) {
    int8_t bytes[32];
    row.offsets[g] = kQueryOffset * ExpandTwice(packed + 16 * g, bytes);
    __builtin_memcpy(row.quads + kQuads * g, bytes, sizeof(bytes));
    row.scales[g] = FromE8m0(packed[kIndexDim / 2 + g]);
  }
}

// What lanes [part * kLanes, ...) of one group of 16 heads add to the score.
F32 WeighHeads(const cpu::IndexTask& task, int64_t heads, int part, const IndexRow& row) {
  const uint8_t* bytes = task.bytes + heads * cpu::kIndexGroupBytes + part * kLanes * 4;
  const float* scales = task.scales + heads * kGroups * cpu::kIndexLanes + part * kLanes;
  F32 product = Zero();
  for (int64_t g = 0; g < kGroups; ++g) {
    // At most 8 * 2 * 24 * 12 = 4608: no 16-bit sum overflows.
    I32 sums = SetInt(0);
    for (int64_t q = g * kQuads; q < (g + 1) * kQuads; ++q) {
      sums = Add16(sums,
                   MultiplyBytes(LoadInt(bytes + q * 4 * cpu::kIndexLanes), SetInt(row.quads[q])));
    }
    const F32 c = ToFloat(Subtract(SumHalves16(sums), SetInt(row.offsets[g]))) * Set(0.25f);
    const F32 scale = Load(scales + g * cpu::kIndexLanes) * Set(row.scales[g]);
    product = g == 0 ? c * scale : MulAdd(c, scale, product);
  }
  const F32 positive = Max(RoundToBf16(product), Zero());
  return RoundToBf16(positive * Load(task.weights + heads * cpu::kIndexLanes + part * kLanes));
}

}  // namespace

void IndexScores(const cpu::IndexTask& task) {
  for (int64_t i = task.first; i < task.end; ++i) {
    IndexRow row;
    ExpandRow(task.rows + i * kPackedBytes, row);
    F32 lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = Zero();
      for (int64_t heads = 0; heads < task.head_groups; ++heads) {
        lanes[part] = lanes[part] + WeighHeads(task, heads, part, row);
      }
    }
    const float score = RoundToBf16(TreeSum(lanes));
    task.scores[i] = score == score ? score : -__builtin_inff();
  }
}

}  // namespace fathom::KERNEL_ISA
