// Norms of rows, and rotary positions (docs/numerics.md 3 and 4).
#include "kernels/gpu/device/norm.h"

#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/device/row_norm.h"
#include "kernels/gpu/gpu.h"
#include "kernels/rope_angle.h"

namespace fathom::kernels::gpu {

GPU_KERNEL(RmsNorm, RmsNormArguments a) {
  GPU_SHARED(float, numbers, kPartNumbers);
  const NormRow row = {.x = a.x.Row(BlockX()), .weight = a.weight, .n = a.x.cols};
  Bf16* const out = a.out.Row(BlockX());
  HeldPart held = HoldPart(row, 0);
  const float r = FactorOfRow(row, a.eps, numbers, held);
  for (;;) {
    GPU_UNROLL
    for (int i = 0; i < kHeldVectors; ++i) {
      EightBf16 normal = {};
      GPU_UNROLL
      for (int k = 0; k < EightBf16::kNumbers; ++k) {
        SetNumber(normal, k, NormalNumber(held, i, k, r));
      }
      const int64_t column = HeldColumn(held, i);
      if (column < row.n) {
        StoreBf16(normal, out + column, row.n - column, IsAlignedRow(row.n, out));
      }
    }
    if (held.first == 0) break;
    held = HoldPart(row, held.first - int64_t{kHeldNumbers} * BlockThreads());
  }
}

namespace {

constexpr int kHeadNumbers = 32;  // numbers of a head that a thread loads at once
constexpr int kHeadPairs = 2;     // pairs whose angles it loads before the sum

// Numbers i = first + lane, + 16, + 32 ... of a head, +0 beyond its end.
struct HeadPart {
  int64_t first = 0;
  Bf16 numbers[kHeadNumbers];
};
GPU_DEVICE HeadPart LoadHead(const Bf16* q, int64_t head_dim, int64_t first) {
  HeadPart part = {.first = first, .numbers = {}};
  GPU_UNROLL
  for (int j = 0; j < kHeadNumbers; ++j) {
    const int64_t i = first + GroupLane() + j * kGroupThreads;
    if (i < head_dim) part.numbers[j] = q[i];
  }
  return part;
}

}  // namespace

// Computes the unweighted norm of every head, rounded to bf16 at every step. A thread reads and
// writes only its own numbers.
GPU_KERNEL(QueryHeads, QueryHeadsArguments a) {
  constexpr int64_t kPart = kHeadNumbers * kGroupThreads;
  const int64_t heads = a.q.cols / a.head_dim;
  const GroupItem item = ItemOfGroup(a.q.rows * heads);
  Bf16* const q = a.q.data + item.index * a.head_dim;
  const int64_t row = item.index / heads;
  const int64_t pairs = a.rope.cos.cols;
  float cos[kHeadPairs] = {};
  float sin[kHeadPairs] = {};
  GPU_UNROLL
  for (int j = 0; j < kHeadPairs; ++j) {
    const int64_t k = GroupLane() + j * kGroupThreads;
    if (k < pairs) {
      cos[j] = a.rope.cos.Row(row)[k];
      sin[j] = a.rope.sin.Row(row)[k];
    }
  }
  HeadPart part = LoadHead(q, a.head_dim, 0);
  float lane = 0.0f;
  for (;;) {
    GPU_UNROLL
    for (int j = 0; j < kHeadNumbers; ++j) {
      const float x = ToFloat(part.numbers[j]);
      lane = lane + RoundToBf16(x * x);
    }
    if (part.first + kPart >= a.head_dim) break;
    part = LoadHead(q, a.head_dim, part.first + kPart);
  }
  const float mean = RoundToBf16(Div(TreeOfGroup(lane), static_cast<float>(a.head_dim)));
  const float s = RoundToBf16(Div(1.0f, Sqrt(RoundToBf16(mean + a.eps))));
  if (!item.is_real) return;
  const int64_t plain = a.head_dim - 2 * pairs;
  const auto rotate = [&](int64_t k, float c, float sine) {
    const int64_t i = plain + 2 * k;
    const RotatedPair pair =
        Rotate(ToBf16(ToFloat(q[i]) * s), ToBf16(ToFloat(q[i + 1]) * s), c, sine);
    q[i] = pair.x;
    q[i + 1] = pair.y;
  };
  GPU_UNROLL
  for (int j = 0; j < kHeadPairs; ++j) {
    const int64_t k = GroupLane() + j * kGroupThreads;
    if (k < pairs) rotate(k, cos[j], sin[j]);
  }
  for (int64_t k = GroupLane() + kHeadPairs * kGroupThreads; k < pairs; k += kGroupThreads) {
    rotate(k, a.rope.cos.Row(row)[k], a.rope.sin.Row(row)[k]);
  }
  for (;;) {
    GPU_UNROLL
    for (int j = 0; j < kHeadNumbers; ++j) {
      const int64_t i = part.first + GroupLane() + j * kGroupThreads;
      if (i < plain) q[i] = ToBf16(ToFloat(part.numbers[j]) * s);
    }
    if (part.first == 0) break;
    part = LoadHead(q, a.head_dim, part.first - kPart);
  }
}

// Norm, RoPE, then FP8 simulation of the other dimensions. The row is one part.
GPU_KERNEL(WindowKeys, WindowKeysArguments a) {
  static_assert(kMostKeyNumbers == kPartNumbers);
  GPU_SHARED(float, numbers, kPartNumbers);
  Bf16* const x = a.kv.Row(BlockX());
  const NormRow row = {.x = x, .weight = a.norm, .n = a.kv.cols};
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = a.kv.cols - 2 * pairs;
  // The last threads have the pairs: the first ones have the groups.
  const int64_t first_pair = BlockThreads() - 1 - ThreadX();
  const bool has_pair = first_pair < pairs;
  const float cos = has_pair ? a.rope.cos.Row(BlockX())[first_pair] : 0.0f;
  const float sin = has_pair ? a.rope.sin.Row(BlockX())[first_pair] : 0.0f;
  HeldPart held = HoldPart(row, 0);
  const float r = FactorOfRow(row, a.eps, numbers, held);
  GPU_UNROLL
  for (int i = 0; i < kHeldVectors; ++i) {
    const int64_t column = HeldColumn(held, i);
    GPU_UNROLL
    for (int k = 0; k < EightBf16::kNumbers && column < row.n; ++k) {
      numbers[column + k] = ToFloat(NormalNumber(held, i, k, r));
    }
  }
  SyncBlock();
  const auto normal = [&](int64_t i) { return ToBf16(numbers[i]); };
  const int64_t group = ThreadX() / kGroupThreads;
  const int64_t step = BlockThreads() / kGroupThreads * kSimulationGroup;
  for (int64_t base = 0; base < plain; base += step) {
    const int64_t first = base + group * kSimulationGroup;
    const bool is_real = first < plain;
    const float scale = SimulationScale(normal, first, is_real ? kSimulationGroup : 0);
    const float inverse = Div(1.0f, scale);
    for (int64_t i = first + GroupLane(); i < first + kSimulationGroup && is_real;
         i += kGroupThreads) {
      x[i] = ToBf16(E4m3ToFloat(E4m3Code(normal(i), inverse)) * scale);
    }
  }
  for (int64_t k = first_pair; k < pairs; k += BlockThreads()) {
    const int64_t i = plain + 2 * k;
    const bool is_first = k == first_pair;
    const RotatedPair pair =
        Rotate(normal(i), normal(i + 1), is_first ? cos : a.rope.cos.Row(BlockX())[k],
               is_first ? sin : a.rope.sin.Row(BlockX())[k]);
    x[i] = pair.x;
    x[i + 1] = pair.y;
  }
}

GPU_KERNEL(FillRopeRows, RopeRowsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.cos.rows * a.cos.cols) return;
  RopeAngle<GpuDoubleOps>(a.positions[i / a.cos.cols], a.frequencies[i % a.cos.cols],
                          a.cos.data + i, a.sin.data + i);
}

}  // namespace fathom::kernels::gpu
